"""Lesson 05: the usual wrong paddings, and what to say of each."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from ....course.evidence import Case
from ....course.mistakes import Mistake
from . import slow
from .right import padded_network
from .stage import DTYPES, EVALUATED, FROZEN, MODE, NO_WEIGHTS, NORMS, OTHER_NORMS, SIZES, STRIDED, WIDTH


def _up(multiple: int) -> Callable[[int], int]:
    return lambda size: -(-size // multiple) * multiple


def _padded(wanted: Callable[[int], int] = _up(8), **changed) -> Callable:
    return lambda model: padded_network(model, wanted, **changed)


def _classes_alone(model):
    """Only the last layer is padded."""
    last = copy.deepcopy(model[-1])
    classes = last.out_features
    padded = padded_network(nn.Sequential(last), _up(8))  # its inputs, as a first layer's, stay
    return nn.Sequential(*model[:-1], *padded) if classes % 8 else model


def _statistics_lost(model):
    made = _padded()(model)
    for layer in made:
        if isinstance(layer, nn.BatchNorm2d):
            layer.reset_running_stats()
    return made


def _evaluating(model):
    return _padded()(model).eval()


def _power_of_two(size: int) -> int:
    return max(8, 1 << (size - 1).bit_length())


_RANDOM = ("Append only zeros, to the biases too. The outputs may be the same at first. But weights that are not 0 get "
           "gradients, and reach the classes with the first step.")
_NOT_CUT = ("The padded classes are still there, and the loss would give them probability. Cut the outputs to the "
            "classes, `outputs[:, :classes]`, before the loss.")
_MODE_CHANGED = ("The network came back in the other mode: leave the mode as it was. A new `nn.Sequential` is always in "
                 "training mode: set `padded.training = model.training`.")
_NORM_CHANGED = ("A norm came back in the other mode. `.train()` and `.eval()` change every part, even frozen norms. Give "
                 "each new layer the `training` of its old one.")
# Where the plainer networks are right: what these have that those have not.
_OF_KIND = {
    STRIDED: "Here the convolutions have a stride, a dilation and circular padding. Keep all options of the old layer, or "
             "the layer itself.",
    OTHER_NORMS: "Here the norms have another eps or momentum, and `num_batches_tracked` counts. Keep all options and "
                 "buffers of the old norm, or the norm itself.",
    NO_WEIGHTS: "Here norms have no weights, or no running statistics, and linear layers no biases. Pad what is there, and "
                "add nothing.",
    FROZEN: "Here some parameters are frozen, not always all of a layer. Each new parameter needs the `requires_grad` of "
            "its old one.",
}
SIZE_MISTAKES = (
    Mistake(slow.tensor_core_sizes, "The network has not changed."),
    Mistake(_classes_alone, "You padded only the classes. The channels of a convolution and the inputs of a linear layer "
                            "are sizes of products too."),
    Mistake(_padded(cut=None), _NOT_CUT),
    Mistake(_padded(cut=lambda classes: slice(-classes, None)),
            "Those are the last outputs. The classes are the first ones, because the zeros were appended."),
    Mistake(_padded(first=True), "The images have 3 channels, and the first convolution takes them as they are. Padding "
                                 "them would copy all images in each step."),
    Mistake(_padded(_up(16)), "You padded to multiples of 16. 8 numbers of two bytes already fill the 16 bytes. Anything "
                              "more is wasted work."),
    Mistake(_padded(_up(64)), "You padded to multiples of 64. They are the most efficient on an A100, but more than the "
                              "task asks for: 8 is enough for tensor cores."),
    Mistake(_padded(_up(4)), "You padded to multiples of 4, which suits TF32. In float16 and bfloat16, 16 bytes are 8 "
                             "numbers."),
    Mistake(_padded(_power_of_two), "You padded to powers of two: the next multiple of 8 is enough."),
    Mistake(_padded(lambda size: size // 8 * 8 + 8), "A size that already is a multiple of 8 got 8 more. Use `-(-size // "
                                                     "8) * 8`, or `size + -size % 8`."),
    Mistake(_padded(fill=lambda *shape: torch.rand(shape, generator=torch.Generator().manual_seed(0))), _RANDOM),
    Mistake(_padded(fill=torch.ones), _RANDOM),
    Mistake(_padded(fill=lambda *shape: torch.full(shape, 1e-3)), _RANDOM),
    Mistake(_statistics_lost, "The running means and variances of the norms are lost. Pad the buffers too, and keep "
                              "their values."),
    Mistake(_evaluating, _MODE_CHANGED),
)


def explain(case: Case, found: dict, wanted: dict) -> str | None:
    """Of the first thing that differs."""
    if found[SIZES] != wanted[SIZES]:
        if len(found[SIZES]) != len(wanted[SIZES]):
            return "The number of convolutions and linear layers has changed."
        return ("These are the inputs → outputs of each convolution and linear layer. Every one must be the next "
                "multiple of 8, in linear layers too. Only the images keep their 3 channels.")
    if found[WIDTH] != wanted[WIDTH]:
        return _NOT_CUT
    if found[MODE] != wanted[MODE]:
        return _MODE_CHANGED
    if found[NORMS] != wanted[NORMS]:
        return _NORM_CHANGED
    if found[DTYPES] != wanted[DTYPES]:
        return "Keep the dtype of the old parameters and statistics. A new layer is float32 unless you say otherwise."
    at_first = "The outputs are right at first, but training changes them. "
    right_at_first = np.allclose(found[EVALUATED], wanted[EVALUATED], 2e-3, 5e-4)
    of_kind = _OF_KIND.get(case.options["network"].get("kind", ""))
    if of_kind is not None:
        return at_first + of_kind if right_at_first else of_kind
    if right_at_first:
        return at_first + "Is an appended number not 0, or does a gradient not come back (`detach`)?"
    return ("Append zeros to weights, biases and the norms' statistics, and leave the old numbers in place. The outputs "
            "are those of the last layer, cut off and otherwise unchanged.")
