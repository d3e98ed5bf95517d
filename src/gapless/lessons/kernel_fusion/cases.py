"""Lesson 07: tensors for the exercises on fused operators, small ones and middling ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...course.evidence import Case
from ...course.variants import CONTIGUOUS, varied

LAYOUTS = (CONTIGUOUS, "transposed", "strided")


def elements(rng: np.random.Generator, name: str, shape: tuple[int, ...], scale: float = 1.0) -> Case:
    x, gradient = (np.asarray(rng.normal(size=shape), dtype=np.float32) for _ in range(2))
    return Case(name, {"x": np.asarray(scale * x, dtype=np.float32), "gradient": gradient})


def exact(case: Case) -> Case:
    """``case`` in float64, with answers as exact as that: float32 rounds by up to 6e-8 of a number. A constant of seven
    digits moves GELU by 8e-9, and will do."""
    return replace(varied(case, "float64"), tolerance=(2e-8, 1e-8))


def with_nan(case: Case, name: str = "x") -> Case:
    """``case``, in which an element of that input is nan, as after a step that went wrong: what follows has to show it."""
    case.inputs[name].flat[5] = np.nan
    return replace(case, name=f"{case.name}, one is nan")


def without_gradient(case: Case) -> Case:
    """``case``, in which nothing requires a gradient: a function may then write into its inputs, and has to leave them."""
    return replace(case, name=f"{case.name}, nothing requires a gradient", options={**case.options, "grad": False})


DTYPES = "float32", "float64"  # half precision tells the formula from the operator, which rounds once
ELEMENTS = 2**20  # of the talk's example: about a million
TRIAL_ELEMENTS = 40_000  # about


def element_trial(rng: np.random.Generator, count: int) -> list[Case]:
    shape = int(rng.integers(180, 220)), int(rng.integers(180, 220))
    return [elements(rng, "a layer's numbers", shape) for _ in range(count)]
