"""Lesson 06: the parameters that get an optimizer."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ....course.exercise import Trial

SHAPES = ((4, 3), (3,), (2, 3, 2), (), (5, 5), (1, 6))


def _network(rng: np.random.Generator, name: str, shapes=SHAPES, dtypes=("float32",), *, steps: int = 3, overflows=(),
             scaled: bool = True, begun: bool = False, tolerance: tuple[float, float] | None = None, **options) -> Case:
    """In each of the ``steps`` the gradients are larger; in ``overflows`` the last of them is infinite. A scaler works on
    them in place. ``bfloat16``: the places of the parameters that are cast."""
    def drawn(number: float) -> list[np.ndarray]:
        arrays = []
        for place, shape in enumerate(shapes):
            dtype = dtypes[place % len(dtypes)]
            values = number * rng.normal(size=shape)
            arrays.append(np.asarray(values + 1j * rng.normal(size=shape) if dtype.startswith("complex") else values
                                     ).astype(dtype))
        return arrays

    weights, first, scale = drawn(1.0), drawn(0.3), 256.0
    grads = [np.asarray(grad * (scale if scaled else 1.0) * (step + 1)) for step in range(steps) for grad in first]
    for step in overflows:
        grads[(step + 1) * len(first) - 1].fill(np.inf)
    return Case(name, {"weights": weights, "grads": grads},
                {"scale": scale, "scaled": scaled, "begun": begun, "without_gradient": [], "frozen": [],
                 "iterator": False, "bfloat16": []} | options, tolerance=tolerance,
                late={"weights": len(weights), "grads": len(first)} if begun else {})


def optimizer_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [
        _network(rng, "three steps of a GradScaler"),
        _network(rng, "the second of three steps overflows", overflows=[1]),
        _network(rng, "the first step overflows", overflows=[0]),
        _network(rng, "a scaler that is switched off", scaled=False, steps=4),
        _network(rng, "an iterator of parameters", iterator=True),
        _network(rng, "two parameters without a gradient", without_gradient=[0, 3]),
        _network(rng, "two frozen parameters, without a gradient", without_gradient=[1, 4], frozen=[1, 4]),
        _network(rng, "matrices only", ((3, 4), (2, 2), (1, 1))),
        _network(rng, "biases and norms only", ((3,), (5,), ())),
        _network(rng, "float32 and float64", dtypes=("float32", "float64"), scaled=False),
        # Nobody knows the last of eight bits.
        _network(rng, "bfloat16, float32 and float64", dtypes=("float32", "float32", "float64"), bfloat16=[0, 1],
                 tolerance=(3e-2, 1e-2)),
        _network(rng, "a complex parameter among others", dtypes=("float32", "complex64"), scaled=False),
        _network(rng, "a complex bias among others", dtypes=("float32", "complex128", *["float32"] * 4), scaled=False),
        _network(rng, "a complex matrix among others", dtypes=("complex64", *["float32"] * 5), scaled=False),
        _network(rng, "one parameter, eight steps", ((3, 3),), steps=8, overflows=[2, 3]),
    ]


FEWEST = 36  # parameters of a trial


def _trial(rng: np.random.Generator, count: int) -> list[Case]:
    number, side = int(rng.integers(FEWEST, FEWEST + 6)), int(rng.integers(5, 9))
    shapes = [(side + place, side) if place % 2 else (side + place,) for place in range(number)]
    # Half of the matrices and half of the biases are in float64.
    dtypes = ("float32", "float32", "float64", "float64")
    return [_network(rng, "a network's parameters in two dtypes", shapes, dtypes, steps=2, begun=True) for _ in range(count)]


# It is the host that sets the pace, here as at any size.
OPTIMIZER_TRIAL = Trial(_trial)
