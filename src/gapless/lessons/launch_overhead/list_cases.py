"""Lesson 06: lists of tensors to be averaged and clipped."""

from __future__ import annotations

import numpy as np

from ...course.evidence import Case
from ...course.exercise import Trial

SHAPES = ((4, 3), (5,), (2, 3, 2), (), (7,), (1,))
HALF, BOTH = ("float16",), ("float32", "float16", "float64")


def _drawn(rng: np.random.Generator, shapes, dtypes, size: float = 1.0) -> list[np.ndarray]:
    arrays = [np.asarray(size * rng.normal(size=shape)) for shape in shapes]
    return [array.astype(dtypes[place % len(dtypes)]) for place, array in enumerate(arrays)]


# -- averages --------------------------------------------------------------------------------------


def _averages(rng: np.random.Generator, name: str, shapes=SHAPES, dtypes=("float32",), of=None, **options) -> Case:
    """``dtypes`` of the averages in turn; ``of``: of the parameters, where they are others. Averages in float16 are whole
    numbers, and so are their parameters: with a decay of some 1/2ⁿ nothing is rounded, whatever comes first."""
    inputs = {"averages": _drawn(rng, shapes, dtypes, 3.0), "parameters": _drawn(rng, shapes, of or dtypes, 3.0)}
    for average, parameter in zip(*inputs.values()):
        if average.dtype == np.float16:
            np.rint(average, out=average)
            np.rint(parameter, out=parameter)
    return Case(name, inputs, {"decay": 0.75, "steps": 1, "iterator": False} | options)


def average_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [
        _averages(rng, "six parameters"),
        _averages(rng, "three steps", steps=3),
        _averages(rng, "parameters of three dtypes", dtypes=BOTH, steps=2),
        _averages(rng, "averages in float32 of parameters in float16", of=HALF, decay=0.9, steps=2),
        _averages(rng, "averages in float32 and float64, parameters in float16 and float32", ((3,), (4, 2), (5,), (2,)),
                  ("float32", "float64"), ("float16", "float32")),
        _averages(rng, "an iterator of parameters", iterator=True, dtypes=("float32", "float64")),
        _averages(rng, "no parameters", ()),
        _averages(rng, "one number", ((),), decay=0.999),
        _averages(rng, "a decay of 0", decay=0.0),
        _averages(rng, "a decay of 1", decay=1.0),
        _averages(rng, "an empty parameter among others", ((0, 3), (2,), (3,))),
    ]


FEWEST = 90  # parameters of a trial


def _network_shapes(rng: np.random.Generator) -> list[tuple[int, ...]]:
    number, side = int(rng.integers(FEWEST, FEWEST + 10)), int(rng.integers(5, 10))
    return [(side, side) if place % 3 == 0 else (side,) for place in range(number)]


def _average_trial(rng: np.random.Generator, count: int) -> list[Case]:
    shapes = _network_shapes(rng)
    return [_averages(rng, "parameters of two dtypes", shapes, ("float32", "float16"), decay=0.875) for _ in range(count)]


# It is the host that sets the pace, here as at any size.
AVERAGE_TRIAL = Trial(_average_trial)


# -- clipping --------------------------------------------------------------------------------------


def _clipped(rng: np.random.Generator, name: str, shapes=SHAPES, dtypes=("float32",), size: float = 1.0, **options) -> Case:
    return Case(name, {"grads": _drawn(rng, shapes, dtypes, size)},
                {"max_norm": 1.0, "without_gradient": [], "iterator": False} | options)


def _with(case: Case, number: float) -> Case:
    case.inputs["grads"][1][0] = number
    return case


def clip_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    drawn = float(rng.uniform(0.3, 0.9))
    return [
        _clipped(rng, "gradients above the limit", max_norm=drawn),
        _clipped(rng, "gradients below the limit", max_norm=100.0),
        _clipped(rng, "two parameters without a gradient", without_gradient=[1, 4]),
        _clipped(rng, "no parameter has a gradient", without_gradient=[0, 1, 2, 3, 4, 5]),
        _clipped(rng, "no parameters", ()),
        _clipped(rng, "gradients of three dtypes", dtypes=BOTH, max_norm=drawn),
        _clipped(rng, "gradients in float16", dtypes=HALF),
        _clipped(rng, "an iterator of parameters", iterator=True, without_gradient=[0]),
        _clipped(rng, "gradients that are all 0", size=0.0),
        _clipped(rng, "an infinite limit", max_norm="inf"),
        _clipped(rng, "a limit of 0", max_norm=0.0),
        _with(_clipped(rng, "a gradient that is inf"), np.inf),
        _with(_clipped(rng, "a gradient that is nan"), np.nan),
        _with(_clipped(rng, "a gradient that is inf, an infinite limit", max_norm="inf"), np.inf),
        _clipped(rng, "one gradient, far above the limit", ((33,),), size=50.0),
    ]


def _clip_trial(rng: np.random.Generator, count: int) -> list[Case]:
    shapes = _network_shapes(rng)
    idle = [int(rng.integers(0, len(shapes)))]
    return [_clipped(rng, "a network's gradients", shapes, without_gradient=idle) for _ in range(count)]


CLIP_TRIAL = Trial(_clip_trial)
