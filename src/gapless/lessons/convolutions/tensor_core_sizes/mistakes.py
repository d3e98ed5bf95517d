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
from .stage import EVALUATED, MODE, SIZES, WIDTH


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


_RANDOM = ("What is appended has to be zeros, biases too. The outputs may be the same at first, but weights that are not 0 "
           "get gradients, and reach the classes with the first step.")
_NOT_CUT = ("The padded classes are still there: the loss would give them probability. Cut the outputs to the classes, "
            "`outputs[:, :classes]`, before the loss.")
_MODE_CHANGED = ("The network came back in the other mode: leave the mode as it was. A new `nn.Sequential` is in training "
                 "mode, whatever is put in: `.train(model.training)`.")
SIZE_MISTAKES = (
    Mistake(slow.tensor_core_sizes, "The network is as it was."),
    Mistake(_classes_alone, "Only the classes were padded: the channels of a convolution and the inputs of a linear layer "
                            "are sizes of products too."),
    Mistake(_padded(cut=None), _NOT_CUT),
    Mistake(_padded(cut=lambda classes: slice(-classes, None)), "Those are the last outputs: the classes are the first "
                                                                "ones, as the zeros were appended."),
    Mistake(_padded(first=True), "The images have 3 channels, and the first convolution takes them as they are: padding "
                                 "them would be a copy of all images in each step."),
    Mistake(_padded(_up(16)), "Padded to multiples of 16: 8 numbers of two bytes are the 16 bytes that are wanted. More is "
                              "work for nothing."),
    Mistake(_padded(_up(64)), "Padded to multiples of 64, which on an A100 are the most efficient, and here more than is "
                              "asked for: 8 is enough for tensor cores."),
    Mistake(_padded(_up(4)), "Padded to multiples of 4: that is TF32's number. Of float16 and bfloat16 16 bytes are 8 "
                             "numbers."),
    Mistake(_padded(_power_of_two), "Padded to powers of two: the next multiple of 8 is enough."),
    Mistake(_padded(lambda size: size // 8 * 8 + 8), "A size that is a multiple of 8 already got 8 more: `-(-size // 8) * "
                                                     "8`, or `size + -size % 8`."),
    Mistake(_padded(fill=lambda *shape: torch.rand(shape, generator=torch.Generator().manual_seed(0))), _RANDOM),
    Mistake(_padded(fill=torch.ones), _RANDOM),
    Mistake(_padded(fill=lambda *shape: torch.full(shape, 1e-3)), _RANDOM),
    Mistake(_statistics_lost, "The running means and variances of the norms were lost: buffers are padded too, and keep "
                              "what they hold."),
    Mistake(_evaluating, _MODE_CHANGED),
)


def explain(case: Case, found: dict, wanted: dict) -> str | None:
    """Of the first thing that differs."""
    if found[SIZES] != wanted[SIZES]:
        if len(found[SIZES]) != len(wanted[SIZES]):
            return "The network has another number of convolutions and linear layers than before."
        return ("Inputs → outputs of each convolution and linear layer: the next multiple of 8 is wanted for all, "
                "linear layers too; the images keep their 3 channels.")
    if found[WIDTH] != wanted[WIDTH]:
        return _NOT_CUT
    if found[MODE] != wanted[MODE]:
        return _MODE_CHANGED
    if np.allclose(found[EVALUATED], wanted[EVALUATED], 2e-3, 5e-4):
        return ("The outputs are right at first, and a training makes others of them: is something that was appended not 0, "
                "or does no gradient come back (`detach`)?")
    return ("Zeros are appended to weights, biases and the norms' statistics, and what was there stays where it was. The "
            "outputs are those of the last layer, cut off and nothing else.")
