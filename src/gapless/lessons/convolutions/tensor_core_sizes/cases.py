"""Lesson 05: networks whose sizes do not suit tensor cores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ....course.evidence import Case
from ....course.exercise import Trial
from ....course.stage import Given
from .stage import BETWEEN, FROZEN, NO_WEIGHTS, OTHER_NORMS, POOLED, STRIDED


def size_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def case(name: str, channels: list[int], hidden: list[int], classes: int, *, bias: bool = False, training: bool = True,
             images: int = 6, kind: str = "") -> Case:
        side = int(rng.integers(9, 12)) if kind else int(rng.integers(5, 8))
        return Case(name, {"images": rng.normal(size=(images, 3, side, side)).astype(np.float32),
                           "labels": rng.integers(0, classes, size=images)},
                    {"network": {"channels": channels, "hidden": hidden, "classes": classes, "bias": bias,
                                 "seed": int(rng.integers(2**31)), "kind": kind}, "training": training, "timed": False})

    def odd() -> int:
        return 16 * int(rng.integers(1, 3)) + int(rng.integers(1, 8))

    return [
        case("odd channels, ten classes", [odd(), odd()], [], 10),
        case("convolutions with a bias", [odd(), odd()], [odd()], 10, bias=True),
        case("all sizes are multiples of 8 already", [16, 24], [32], 8),
        case("only the classes are odd", [8, 16], [], 13),
        case("fewer than 8 of everything", [3, 5], [7], 2),
        case("one above a multiple of 8", [9, 17], [25], 33, bias=True),
        case("a network in evaluation mode", [odd()], [odd()], 10, training=False),
        case("one class, one image", [odd()], [], 1, training=False, images=2),
        case("more than 64 of each", [70], [65], 10),
        case("linear layers only behind one convolution", [odd()], [odd(), odd()], 21),
        *(case(kind, [odd(), odd()], [odd()], 10, bias=True, kind=kind)
          for kind in (STRIDED, OTHER_NORMS, NO_WEIGHTS, BETWEEN, POOLED, FROZEN)),
    ]


def _timed(channels: list[int], hidden: list[int], seed: int, backward: bool) -> dict:
    return {"network": {"channels": channels, "hidden": hidden, "classes": 10, "bias": False, "seed": seed},
            "training": True, "timed": True, "backward": backward}


def _size_trial(rng: np.random.Generator, count: int) -> list[Case]:
    """Every size is a little below a multiple of 8, so that a padded network computes hardly more."""
    side = int(rng.integers(22, 26))
    first, second, hidden = (64 - int(rng.integers(1, 4)) for _ in range(3))
    return [Case("a pass in mixed precision", {"images": rng.normal(size=(16, 3, side, side)).astype(np.float32),
                                               "labels": rng.integers(0, 10, size=16)},
                 _timed([first, second], [hidden], int(rng.integers(2**31)), backward=False),
                 layouts={"images": "channels_last"}) for _ in range(count)]


SIZE_TRIAL = Trial(_size_trial, slowdown=1000.0)


def full_sizes(device: torch.device) -> Callable[[], Given]:
    """4096 images of 3×32×32 through odd numbers of channels, so many that the padding itself takes no time beside them."""
    inputs = {"images": torch.randn(4096, 3, 32, 32, device=device), "labels": torch.randint(0, 10, (4096,), device=device)}
    return lambda: Given(inputs, _timed([61, 125], [251], 0, backward=True))
