"""Lesson 05: the usual wrong versions of ``to_channels_last``'s forward pass, and what to say of each."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from ....course.mistakes import Mistake


def mix(block, x):
    """The channels of each pixel of N×C×H×W."""
    return block.mix(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def widened(x, channels: int):
    """With zeros behind the channels that there are."""
    return F.pad(x, (0, 0, 0, 0, 0, channels - x.shape[1]))


def mean(x):
    """Over the pixels."""
    return x.mean((2, 3))


def forward_of(model, mix: Callable = mix, widened: Callable = widened, mean: Callable = mean, add: Callable = torch.add
               ) -> Callable:
    """The forward pass with a part of it in another way."""
    model = model.to(memory_format=torch.channels_last)

    def forward(images):
        x = model.stem(images)
        for block in model.blocks:
            mixed = mix(block, x)
            x = F.relu(add(widened(x, mixed.shape[1]), block.norm(block.conv(mixed))))
        return model.head(mean(x))

    return forward


def _relabelled(block, x):
    """The order in memory taken for another one."""
    n, c, h, w = x.shape
    return block.mix(x.permute(0, 2, 3, 1)).reshape(n, -1, h, w)


def _wrong_pixels(block, x):
    n, c, h, w = x.shape
    return block.mix(x.reshape(n * h * w, c)).view(n, h, w, -1).permute(0, 3, 1, 2)


def _turned_images(block, x):
    return block.mix(x.permute(0, 2, 3, 1)).permute(0, 3, 2, 1).reshape(x.shape[0], -1, *x.shape[2:])


FORMATS = (
    Mistake(lambda model: forward_of(model, mix=_relabelled), (
        "`view` and `reshape` never turn anything: from N×H×W×C to N×C×H×W leads `permute(0, 3, 1, 2)`, which copies "
        "nothing.")),
    Mistake(lambda model: forward_of(model, mix=_wrong_pixels), (
        "The rows that are mixed are no pixels: before `reshape(n * h * w, c)` the channels have to be the last dimension, "
        "`permute(0, 2, 3, 1)`.")),
    Mistake(lambda model: forward_of(model, mix=_turned_images), (
        "Height and width have changed places: back leads `permute(0, 3, 1, 2)`.")),
    Mistake(lambda model: forward_of(model, widened=lambda x, channels: F.pad(x, (0, 0, 0, 0, channels - x.shape[1], 0))), (
        "The zeros come before the channels that there are; they belong behind them. `F.pad` takes pairs from the last "
        "dimension on, each as (before, behind).")),
    Mistake(lambda model: forward_of(model, widened=lambda x, channels: x.repeat(1, channels // x.shape[1], 1, 1)), (
        "The new channels of the shortcut are zero; here they repeat the old ones.")),
    Mistake(lambda model: forward_of(model, add=lambda shortcut, x: x), "The shortcut is missing."),
    Mistake(lambda model: forward_of(model, mean=lambda x: x.amax((2, 3))), "The head takes the mean over the pixels."),
    Mistake(lambda model: forward_of(model, mean=lambda x: x.sum((2, 3))), (
        "The head takes the mean over the pixels, no sum.")),
    Mistake(lambda model: forward_of(model.eval()), (
        "The model is in evaluation mode: its norms have to see the batch. Leave the mode as it was.")),
)
