"""Lesson 05: the usual wrong versions of ``without_bias``, and what to say of each."""

from __future__ import annotations

import torch
from torch import nn

from ....course.mistakes import Mistake
from ..stage import CONVOLUTIONS
from .explain import MODES
from .right import INSTANCE_NORMS, NORMS, cancels, drop


def in_order(model: nn.Module, norms: tuple[type, ...] = NORMS, fold: float = 1.0) -> nn.Module:
    """Uses the order in which the parts are defined."""
    parts = list(model.modules())
    for conv, norm in zip(parts, parts[1:]):
        if isinstance(conv, CONVOLUTIONS) and isinstance(norm, norms) and conv.bias is not None:
            if getattr(norm, "running_mean", None) is not None:
                norm.running_mean.sub_(conv.bias.detach(), alpha=fold)
            conv.bias = None
    return model


def each(model: nn.Module, change) -> nn.Module:
    """``change(convolution)`` of every one that has a bias."""
    for part in model.modules():
        if isinstance(part, CONVOLUTIONS) and part.bias is not None:
            change(part)
    return model


def _without(conv: nn.Module) -> None:
    conv.bias = None


def _zeroed(conv: nn.Module) -> None:
    with torch.no_grad():
        conv.bias.zero_()


def _frozen(conv: nn.Module) -> None:
    conv.bias.requires_grad_(False)


def _after_a_pass(model: nn.Module, images: torch.Tensor) -> nn.Module:
    with torch.no_grad():
        model(images)
    return drop(model)


def _in_evaluation(model: nn.Module) -> nn.Module:
    return drop(model).eval()


def _all_trained(model: nn.Module) -> nn.Module:
    return drop(model).train()


def _also(*kinds: type):
    return lambda norm: cancels(norm) or isinstance(norm, kinds)


ORDER = ("It uses the order in which the parts are defined, which is not the order of use. What counts is where a "
         "convolution's output goes. Follow the tensors, in a trace of `forward` (`torch.fx`) or during a run.")
FOLD = ("In training the norm cancels the bias. In evaluation it subtracts its running mean, which contains the bias. So "
        "subtract the convolution's bias from the norm's `running_mean` too.")
BIAS = (
    Mistake(lambda model, images: drop(model, fold=0.0), FOLD),
    Mistake(lambda model, images: drop(model, fold=-1.0), (
        "The running mean moves the wrong way. It contains the bias, so without the bias it is that much *less*.")),
    Mistake(lambda model, images: drop(model, detached=False), (
        "A running mean that is computed with the parameter belongs to a graph. Subtract the values alone: "
        "`conv.bias.detach()`.")),
    Mistake(lambda model, images: each(model, _zeroed), (
        "The biases are zero now, but still there: every step adds them and computes their gradient. Remove the "
        "parameter: `conv.bias = None`.")),
    Mistake(lambda model, images: each(model, _frozen), (
        "The biases no longer get a gradient, but they are still added. Remove the parameter: `conv.bias = None`.")),
    Mistake(lambda model, images: each(model, _without), (
        "Every bias is gone, even those that no norm cancels.")),
    Mistake(lambda model, images: in_order(model), ORDER),
    Mistake(lambda model, images: in_order(model, fold=0.0), ORDER),
    Mistake(lambda model, images: drop(model, cancels=_also(nn.GroupNorm)), (
        "A GroupNorm subtracts the mean of all channels of a group. The channels' biases differ, so they do not cancel. "
        "Only with one channel in each group is it the channel's own mean.")),
    Mistake(lambda model, images: drop(model, cancels=_also(nn.GroupNorm, nn.LayerNorm)), (
        "LayerNorm over all channels, and GroupNorm over several, subtract a mean of many channels, whose biases "
        "differ. Only a norm that subtracts each channel's own mean cancels the bias.")),
    Mistake(lambda model, images: drop(model, cancels=lambda norm: isinstance(norm, NORMS)), (
        "Two things are wrong. GroupNorm with one channel in each group cancels a bias, and is missing. And a norm that "
        "stays in evaluation mode while the model trains does not subtract this batch's mean: its convolution's bias "
        "learns.")),
    Mistake(lambda model, images: drop(model, cancels=lambda norm: cancels(norm) or isinstance(norm, NORMS)), (
        "A norm that stays in evaluation mode while the model trains (`norm.training` is False) subtracts a constant, "
        "not this batch's mean. The bias before it has a gradient, and learns.")),
    Mistake(lambda model, images: drop(model, most_users=any), (
        "The convolution's output goes to a norm, and somewhere else too. There the bias is needed.")),
    Mistake(lambda model, images: drop(model, alone=False), (
        "The norm has another input besides this convolution's output, and one running mean for both. No shift of it "
        "suits both in evaluation, so that bias has to stay.")),
    Mistake(lambda model, images: drop(model, most_calls=1), (
        "A forward pass may call a convolution more than once. Look at where each of its outputs goes, and correct the "
        "running mean of every norm after it.")),
    Mistake(lambda model, images: drop(model, kinds=(nn.Conv2d,)), (
        "There are convolutions in one and three dimensions too, and transposed ones: use `CONVOLUTIONS`.")),
    Mistake(lambda model, images: drop(model, kinds=(nn.Conv1d, nn.Conv2d, nn.Conv3d)), (
        "Transposed convolutions have a bias as well: use `CONVOLUTIONS`.")),
    Mistake(lambda model, images: drop(model, cancels=lambda norm: cancels(norm) and "Batch" in type(norm).__name__), (
        "BatchNorm is not the only norm that subtracts each channel's own mean. InstanceNorm does too, and so does "
        "GroupNorm with one channel in each group.")),
    Mistake(lambda model, images: drop(model, cancels=lambda norm: cancels(norm) and norm.affine), (
        "A norm without weight and bias (`affine=False`) cancels a convolution's bias too.")),
    Mistake(lambda model, images: drop(model, cancels=lambda norm: (
        cancels(norm) and getattr(norm, "running_mean", None) is not None)), (
        "A norm without running statistics cancels the bias in both modes, and there is nothing to correct.")),
    *(Mistake(lambda model, images, kinds=kinds: drop(model, cancels=lambda norm: (
        cancels(norm) and (norm.training or not isinstance(norm, kinds)))), (
        "A norm without running statistics subtracts each channel's own mean in evaluation mode too. So it cancels the bias "
        "in both modes.")) for kinds in (nn.Module, nn.GroupNorm, INSTANCE_NORMS)),
    Mistake(lambda model, images: drop(model, cancels=lambda norm: (
        cancels(norm) and not isinstance(norm, (nn.InstanceNorm1d, nn.InstanceNorm3d)))), (
        "There are InstanceNorms in one and three dimensions too, and they cancel the bias as well.")),
    Mistake(_after_a_pass, (
        "You called the model in training mode to follow its tensors, and that changed the running statistics. Trace it "
        "without running it (`torch.fx`). Or run it in evaluation mode, and restore the mode.")),
    Mistake(lambda model, images: _in_evaluation(model), (
        "The model comes back in evaluation mode. Restore the mode that it was in: `model.train()`.")),
    Mistake(lambda model, images: _all_trained(model), MODES),
    Mistake(lambda model, images: model, (
        "The model has not changed: every bias is still there, also those that a norm cancels. Do you find the convolutions "
        "that are called twice, or share their bias?")),
)
