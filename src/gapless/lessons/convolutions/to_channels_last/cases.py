"""Lesson 05: the inputs of ``to_channels_last``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ....course.exercise import Trial

# Copies from one memory format into the other: cuDNN's, and PyTorch's as the virtual GPU names them.
TURNING_KERNELS = r"nchwToNhwc|nhwcToNchw|memory format|clone"


def _formatted(rng: np.random.Generator, name: str, shape: tuple[int, int, int], width: int, mixed_precision: bool = False,
               backward: bool = True, uneven: bool = False) -> Case:
    batch, height, side = shape
    images = rng.normal(size=(batch, 8, height, side)).astype(np.float32)
    options = {"width": width, "mixed_precision": mixed_precision, "backward": backward,
               "uneven": uneven, "seed": int(rng.integers(2**31))}
    return Case(name, {"images": images}, options, layouts={"images": "channels_last"})


def format_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [
        _formatted(rng, "two images", (2, 6, 5), 4),
        _formatted(rng, "higher than wide", (3, 9, 4), 3),
        _formatted(rng, "one image", (1, 4, 7), 2),
        _formatted(rng, "rows of one pixel", (2, 5, 1), 4),
        _formatted(rng, "three blocks of other widths, a norm in evaluation mode", (3, 5, 6), 3, uneven=True),
        # Forward alone: half a digit more or less decides on which side of a ReLU's edge a number lies, and its gradient.
        _formatted(rng, "in mixed precision", (2, 6, 8), 8, mixed_precision=True, backward=False),
    ]


def _format_trial(rng: np.random.Generator, count: int) -> list[Case]:
    height, side = rng.integers(15, 19, size=2).tolist()
    return [_formatted(rng, "images in mixed precision", (4, height, side), 16, True, backward=False)
            for _ in range(count)]


FORMAT_TRIAL = Trial(_format_trial, slowdown=500.0)
