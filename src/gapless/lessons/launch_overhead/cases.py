"""Lesson 06: lists of tensors to be averaged and clipped."""

from __future__ import annotations

import numpy as np

SHAPES = ((4, 3), (5,), (2, 3, 2), (), (7,), (1,))
HALF, BOTH = ("float16",), ("float32", "float16", "float64")


def draw(rng: np.random.Generator, shapes, dtypes, size: float = 1.0) -> list[np.ndarray]:
    arrays = [np.asarray(size * rng.normal(size=shape)) for shape in shapes]
    return [array.astype(dtypes[place % len(dtypes)]) for place, array in enumerate(arrays)]


FEWEST = 90  # parameters of a trial


def network_shapes(rng: np.random.Generator) -> list[tuple[int, ...]]:
    number, side = int(rng.integers(FEWEST, FEWEST + 10)), int(rng.integers(5, 10))
    return [(side, side) if place % 3 == 0 else (side,) for place in range(number)]
