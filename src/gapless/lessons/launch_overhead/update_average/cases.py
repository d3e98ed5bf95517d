"""Lesson 06: the inputs of ``update_average``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ....course.exercise import Trial
from ..cases import BOTH, HALF, SHAPES, draw, network_shapes


def _averages(rng: np.random.Generator, name: str, shapes=SHAPES, dtypes=("float32",), of=None, size: float = 3.0,
              bfloat16: tuple[int, ...] = (), tolerance: tuple[float, float] | None = None,
              layouts: dict[str, str] | None = None, **options) -> Case:
    """``dtypes`` of the averages in turn; ``of``: of the parameters, where they are others; ``size``: about what the
    parameters are; ``bfloat16``: the places of the pairs that are cast. Averages in float16 and bfloat16 are whole numbers,
    and so are their parameters: with a decay of some 1/2ⁿ nothing is rounded, whatever comes first."""
    inputs = {"averages": draw(rng, shapes, dtypes, 3.0), "parameters": draw(rng, shapes, of or dtypes, size)}
    for place, (average, parameter) in enumerate(zip(*inputs.values())):
        if average.dtype == np.float16 or place in bfloat16:
            np.rint(average, out=average)
            np.rint(parameter, out=parameter)
    return Case(name, inputs, {"decay": 0.75, "steps": 1, "iterator": False, "frozen": [], "renewed": False,
                               "bfloat16": list(bfloat16)} | options, layouts=layouts or {}, tolerance=tolerance)


def average_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [
        # The first of all: later ones find in a cache what this one put there.
        _averages(rng, "three steps, each with new parameters in another order", dtypes=("float32", "float64"), steps=3,
                  renewed=True),
        _averages(rng, "six parameters"),
        _averages(rng, "three steps, averages transposed in memory", steps=3, layouts={"averages": "transposed"}),
        _averages(rng, "two frozen parameters among others", frozen=[1, 2]),
        _averages(rng, "parameters of four dtypes", dtypes=BOTH, steps=2, bfloat16=(0,)),
        # So that digits show that float32 does not have.
        _averages(rng, "averages and parameters in float64", dtypes=("float64",), tolerance=(1e-10, 1e-10)),
        _averages(rng, "averages in float32 of parameters in float16", of=HALF, decay=0.9, steps=2),
        _averages(rng, "averages in float32 and float64, parameters in float16 and float32", ((3,), (4, 2), (5,), (2,)),
                  ("float32", "float64"), ("float16", "float32")),
        _averages(rng, "averages in float16 and float32 of parameters in float32", dtypes=("float16", "float32"),
                  of=("float32",), tolerance=(1e-6, 1e-6)),
        _averages(rng, "an iterator of parameters", iterator=True, dtypes=("float32", "float64")),
        _averages(rng, "no parameters", ()),
        _averages(rng, "one number", ((),), decay=0.999),
        # Without such parameters, a share of a ten-thousandth would hardly show.
        _averages(rng, "a decay of 0.9999, and large parameters", decay=0.9999, size=3e4),
        _averages(rng, "a decay of 0", decay=0.0),
        _averages(rng, "a decay of 1", decay=1.0),
        _averages(rng, "an empty parameter among others", ((0, 3), (2,), (3,))),
    ]


def _average_trial(rng: np.random.Generator, count: int) -> list[Case]:
    shapes = network_shapes(rng)
    return [_averages(rng, "parameters of two dtypes", shapes, ("float32", "float16"), decay=0.875) for _ in range(count)]


# It is the host that sets the pace, here as at any size.
AVERAGE_TRIAL = Trial(_average_trial)
