"""Lesson 05: how ``to_channels_last`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
from torch import nn

from ....course.plain import Unusable

FIRST_CALL = ("outputs", "gradients", "running means")
DTYPE = "dtype of the outputs"


class Block(nn.Module):
    """``mix``: the channels of each pixel among themselves. Then a convolution and its norm."""

    def __init__(self, before: int, after: int, **of_norm):
        super().__init__()
        self.mix = nn.Linear(before, after)
        self.conv = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(after, **of_norm)


class MixingNetwork(nn.Module):
    """Parts without a ``forward``: a stem (images of 8 channels → the first of ``widths``), a block from each width to the
    next, and a head from a mean over the pixels to eight classes."""

    def __init__(self, widths: list[int], **of_norm):
        super().__init__()
        width = widths[0]
        self.stem = nn.Sequential(nn.Conv2d(8, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.blocks = nn.ModuleList(Block(before, after, **of_norm) for before, after in zip(widths, widths[1:]))
        self.head = nn.Linear(widths[-1], 8)


def make_mixing_network(width: int, seed: int, device: torch.device, uneven: bool = False) -> MixingNetwork:
    """Its weights drawn from ``seed``: two blocks that double the channels, or three of which one keeps them
    (``uneven``), with a norm in evaluation mode. The random numbers of others stay as they are."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if not uneven:
            return MixingNetwork([width, 2 * width, 4 * width]).to(device)
        model = MixingNetwork([width, width, 3 * width, 4 * width], eps=0.01, momentum=0.3).to(device)
        model.blocks[1].norm.eval()
        return model


def ask_channels_last(function, given, device):
    """What the model computes in mixed precision, its gradients, and what its norms have seen."""
    options = given.options
    images = given.inputs["images"].contiguous(memory_format=torch.channels_last)
    model = make_mixing_network(options["width"], options["seed"], device, options["uneven"])
    modes = {part: part.training for part in model.modules()}
    forward = function(model)
    if not callable(forward) or forward is model:  # the model has no forward pass of its own
        raise Unusable(f"it returned a {type(forward).__name__}, not the function `forward(images)`.")

    def outputs_of(images):
        with torch.autocast(device.type, torch.float16, enabled=options["mixed_precision"]):
            return forward(images)

    yield
    outputs = outputs_of(images)
    if not isinstance(outputs, torch.Tensor):
        raise Unusable(f"`forward` returned a {type(outputs).__name__}, not a tensor N×8.")
    if options["backward"]:
        outputs.float().square().mean().backward()
    yield
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    found = {DTYPE: str(outputs.dtype), "outputs": outputs.detach(), "gradients": {
        name: None if gradient is None else gradient.flatten() for name, gradient in gradients.items()}}
    found["running means"] = {name: buffer.clone() for name, buffer in model.named_buffers()
                              if name.endswith("running_mean")}
    with torch.no_grad():
        for part, training in modes.items():
            part.training = training
        for parameter in model.parameters():
            parameter.mul_(0.9)
        found["outputs for one image, after the weights have changed"] = outputs_of(images[:1])
        model.eval()
        found["outputs in evaluation"] = outputs_of(images[:, :, :-1])  # of another height
    return found
