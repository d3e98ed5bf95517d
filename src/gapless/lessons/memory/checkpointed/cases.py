"""Lesson 08: the networks and images on which checkpointing is tried, small and middling, and those at full size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ....course.evidence import Case
from ....course.exercise import Trial
from ....course.stage import Given
from ..cases import drawn_weights, full_weights
from ..stage import CLASSES, BlockNetwork


def _options(width: int, seed: int, *, passes: int = 1, by_grad: bool = False, frozen=(), in_evaluation=(),
             images_learn: bool = False, **network) -> dict:
    return {"width": width, "seed": seed, "passes": passes, "by_grad": by_grad, "frozen": list(frozen),
            "in_evaluation": list(in_evaluation), "images_learn": images_learn, "network": network}


def _case(rng: np.random.Generator, name: str, *, width: int = 4, rows: int = 3, sides: tuple[int, int] = (8, 8),
          steps: int = 2, passes: int = 1, kind: type = np.float32, **options) -> Case:
    count = steps * passes
    images = rng.normal(size=(count, rows, 3, *sides)).astype(kind)
    labels = rng.integers(0, CLASSES, size=(count, rows, *sides))
    weights = [each.astype(kind) for each in drawn_weights(lambda: BlockNetwork(width), rng)]
    return Case(name, {"weights": weights, "images": list(images), "labels": list(labels)},
                _options(width, int(rng.integers(1000)), passes=passes, **options))


def checkpoint_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [
        _case(rng, "two steps", dropout=0.0),
        _case(rng, "two steps, with dropout", dropout=0.4),
        _case(rng, "no momentum: the norms' statistics are means over all batches, in float64", dropout=0.0, momentum=None,
              kind=np.float64),
        _case(rng, "the first convolution and its norm are frozen", frozen=("blocks.0.conv", "blocks.0.norm")),
        _case(rng, "all convolutions but the last are frozen, and the norms are without statistics", tracking=False,
              frozen=tuple(f"blocks.{place}.conv" for place in range(3))),
        _case(rng, "the second block is frozen", frozen=("blocks.1",)),
        _case(rng, "images that require a gradient", images_learn=True, steps=1),
        _case(rng, "two forward passes, gradients by torch.autograd.grad", passes=2, dropout=0.3, by_grad=True,
              steps=1),
        _case(rng, "the first two norms are in evaluation mode", in_evaluation=("blocks.0.norm", "blocks.1.norm")),
        _case(rng, "a dropout alone is in evaluation mode", dropout=0.4, in_evaluation=("blocks.1.drop",)),
        _case(rng, "the network is in evaluation mode, and trained", in_evaluation=("",)),
        _case(rng, "one image, of another width", width=int(rng.integers(5, 8)), rows=1, sides=(12, 8), steps=3),
    ]


def _trial(rng: np.random.Generator, count: int) -> list[Case]:
    rows, width = int(rng.integers(2, 4)), int(rng.integers(19, 22))
    return [_case(rng, "a step", width=width, rows=rows, sides=(32, 32), steps=1) for _ in range(count)]


CHECKPOINT_TRIAL = Trial(_trial, slowdown=2000.0)
FULL_WIDTH, FULL_ROWS, FULL_SIDE = 256, 64, 64


def full_checkpoint(device: torch.device) -> Callable[[], Given]:
    """A step of 64 images of 3×64×64, with 256 channels in the first block."""
    images = torch.randn(FULL_ROWS, 3, FULL_SIDE, FULL_SIDE, device=device)
    labels = torch.randint(0, CLASSES, (FULL_ROWS, FULL_SIDE, FULL_SIDE), device=device)
    inputs = {"weights": full_weights(lambda: BlockNetwork(FULL_WIDTH), device), "images": [images], "labels": [labels]}
    return lambda: Given(inputs, _options(FULL_WIDTH, 0))
