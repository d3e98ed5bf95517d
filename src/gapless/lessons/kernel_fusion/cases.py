"""Lesson 07: tensors for the exercises on fused operators, small ones and middling ones."""

from __future__ import annotations

import numpy as np

from ...course.evidence import Case
from ...course.variants import CONTIGUOUS

LAYOUTS = (CONTIGUOUS, "transposed", "strided")


def elements(rng: np.random.Generator, name: str, shape: tuple[int, ...], scale: float = 1.0) -> Case:
    x, gradient = (np.asarray(rng.normal(size=shape), dtype=np.float32) for _ in range(2))
    return Case(name, {"x": np.asarray(scale * x, dtype=np.float32), "gradient": gradient})


DTYPES = "float32", "float64"  # half precision tells the formula from the operator, which rounds once
ELEMENTS = 2**20  # of the talk's example: about a million
TRIAL_ELEMENTS = 40_000  # about


def element_trial(rng: np.random.Generator, count: int) -> list[Case]:
    shape = int(rng.integers(180, 220)), int(rng.integers(180, 220))
    return [elements(rng, "a layer's numbers", shape) for _ in range(count)]
