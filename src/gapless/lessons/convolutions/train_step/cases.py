"""Lesson 05: the training steps on which mixed precision is tried, small and middling, and one at full size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ....course.evidence import Case
from ....course.exercise import Trial
from ....course.stage import Given
from .stage import CLASSES, make_network

NEVER = 10**6  # no norm is larger; nor does a scale grow after so many steps


def _step(rng: np.random.Generator, name: str, *, steps: int = 1, micro_batches: int = 2, rows: int = 3, channels: int = 6,
          width: int = 10, side: int = 6, dtype: str = "float16", scale: float = 1024.0, growth_interval: int = 1,
          max_norm: float = 0.25, lr: float = 1.0, **options) -> Case:
    """``steps`` of ``micro_batches`` of ``rows`` images each."""
    with torch.device("meta"):
        parameters = [(parameter.shape, parameter.dim() > 1) for parameter in make_network(channels, width).parameters()]
    weights = [(rng.normal(size=shape) * (2 / np.prod(shape[1:])) ** 0.5).astype(np.float32) if matrix
               else rng.uniform(0.5, 1.5, shape).astype(np.float32) for shape, matrix in parameters]
    count = steps * micro_batches
    return Case(name, {"weights": weights, "x": list(rng.normal(size=(count, rows, 3, side, side)).astype(np.float32)),
                       "y": list(rng.integers(0, CLASSES, size=(count, rows)))},
                {"micro_batches": micro_batches, "dtype": dtype, "scale": scale, "growth_interval": growth_interval,
                 "max_norm": max_norm, "lr": lr, **options})


def train_step_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [
        _step(rng, "two micro-batches, gradients that are clipped"),
        _step(rng, "gradients that overflow float16", scale=2.0**40),
        _step(rng, "the gradients of an earlier step are still there", earlier_gradients=True, groups=2),
        _step(rng, "one micro-batch", micro_batches=1),
        _step(rng, "bfloat16, a scaler that is switched off, three micro-batches", dtype="bfloat16", micro_batches=3),
        _step(rng, "gradients below the limit", max_norm=float(NEVER), lr=0.1),
        _step(rng, "three steps, the scale doubles after two", steps=3, growth_interval=2, lr=0.3),
        _interrupted(rng),
        _step(rng, "a norm that stays in evaluation mode", evaluating=True),
        _step(rng, "two parameter groups", groups=2),
        _step(rng, "five micro-batches of other sizes", micro_batches=5, rows=int(rng.integers(4, 7)), channels=9, side=5),
    ]


def _interrupted(rng: np.random.Generator) -> Case:
    """The second of three steps has an infinite number in its images."""
    case = _step(rng, "three steps, the second with gradients that are nan", steps=3, growth_interval=NEVER, lr=0.3)
    case.inputs["x"][3][0, 0, 0, 0] = np.inf
    return case


def _trial(rng: np.random.Generator, count: int) -> list[Case]:
    rows, width = int(rng.integers(30, 35)), 8 * int(rng.integers(7, 10))
    return [_step(rng, "a step", micro_batches=1, rows=rows, side=8, channels=32, width=width, growth_interval=NEVER)
            for _ in range(count)]


TRAIN_STEP_TRIAL = Trial(_trial, slowdown=1000.0)
FULL_CHANNELS, FULL_WIDTH, FULL_ROWS, FULL_SIDE = 128, 1024, 4096, 16


def full_train_step(device: torch.device) -> Callable[[], Given]:
    """A step of 4096 images of 3×16×16, through 128 channels and a linear layer of 1024."""
    with torch.device("meta"):
        shapes = [parameter.shape for parameter in make_network(FULL_CHANNELS, FULL_WIDTH).parameters()]
    weights = [0.01 * torch.randn(shape, device=device) for shape in shapes]
    x = torch.randn(FULL_ROWS, 3, FULL_SIDE, FULL_SIDE, device=device)
    y = torch.randint(0, CLASSES, (FULL_ROWS,), device=device)
    inputs = {"weights": weights, "x": [x], "y": [y]}
    options = {"micro_batches": 1, "dtype": "float16", "scale": 1024.0, "growth_interval": NEVER, "max_norm": 1.0,
               "lr": 0.01}
    return lambda: Given(inputs, dict(options))
