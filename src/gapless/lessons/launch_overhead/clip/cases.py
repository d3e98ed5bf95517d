"""Lesson 06: the inputs of ``clip``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ....course.exercise import Trial
from ..cases import BOTH, HALF, SHAPES, draw, network_shapes
from .stage import GRADIENTS, NORM


def _clipped(rng: np.random.Generator, name: str, shapes=SHAPES, dtypes=("float32",), size: float = 1.0, steps: int = 1,
             layout: str | None = None, tolerance: tuple[float, float] | None = None, **options) -> Case:
    return Case(name, {"grads": [grad for _ in range(steps) for grad in draw(rng, shapes, dtypes, size)]},
                {"max_norm": 1.0, "without_gradient": [], "frozen": [], "iterator": False, "steps": steps,
                 "bfloat16": []} | options, layouts={"grads": layout} if layout else {}, tolerance=tolerance)


def _with(case: Case, number: float) -> Case:
    case.inputs["grads"][1][0] = number
    return case


def clip_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    drawn = float(rng.uniform(0.3, 0.9))
    return [
        _clipped(rng, "gradients above the limit", max_norm=drawn),
        _clipped(rng, "gradients below the limit", max_norm=100.0),
        _clipped(rng, "two steps, each with new gradients", steps=2, max_norm=drawn),
        _clipped(rng, "two frozen parameters with a gradient", frozen=[0, 4]),
        _clipped(rng, "gradients transposed in memory", layout="transposed", max_norm=drawn),
        _clipped(rng, "two parameters without a gradient", without_gradient=[1, 4]),
        _clipped(rng, "no parameter has a gradient", without_gradient=[0, 1, 2, 3, 4, 5]),
        _clipped(rng, "no parameters", ()),
        _clipped(rng, "gradients of three dtypes", dtypes=BOTH, max_norm=drawn),
        # A norm, a factor and a product, each rounded to eight bits.
        _clipped(rng, "gradients in bfloat16 and float32", bfloat16=[0, 2], max_norm=drawn, tolerance=(2e-2, 1e-3)),
        _clipped(rng, "gradients in float16", dtypes=HALF),
        # The square of such a norm is more than float16 can hold.
        _clipped(rng, "large gradients in float16", dtypes=HALF, size=100.0),
        # The square of such a norm is more than float32 can hold.
        _clipped(rng, "large gradients in float64", dtypes=("float64",), size=1e25),
        _clipped(rng, "an iterator of parameters", iterator=True, without_gradient=[0]),
        _with(_clipped(rng, "gradients that are nearly 0", size=0.0, max_norm=0.04), 0.05),
        _clipped(rng, "gradients of a millionth, in millionths", size=3e-7, max_norm=4e-7, unit=1e-6),
        _clipped(rng, "an infinite limit", max_norm="inf"),
        _clipped(rng, "a limit of 0", max_norm=0.0),
        _clipped(rng, "gradients that are all 0, a limit of 0", size=0.0, max_norm=0.0),
        _with(_clipped(rng, "a gradient that is inf"), np.inf),
        _with(_clipped(rng, "a gradient that is nan"), np.nan),
        _with(_clipped(rng, "a gradient that is inf, an infinite limit", max_norm="inf"), np.inf),
        _clipped(rng, "one gradient, far above the limit", ((33,),), size=5e4),
    ]


def seen(case: Case, answer: dict, notes: list) -> dict:
    """In the case's unit: what is added to the norm shows in small gradients alone."""
    unit, norm = case.options.get("unit", 1.0), answer[NORM]
    return answer | {NORM: norm / unit if isinstance(norm, float) else norm,
                     GRADIENTS: [(np.array(grad) / unit).tolist() for grad in answer[GRADIENTS]]}


def _clip_trial(rng: np.random.Generator, count: int) -> list[Case]:
    shapes = network_shapes(rng)
    idle = [int(rng.integers(0, len(shapes)))]
    # A few in float16: PyTorch's clip_grad_norm_ goes through those one by one, and may.
    dtypes = ("float16", *["float32"] * 10)
    return [_clipped(rng, "a network's gradients in two dtypes", shapes, dtypes, without_gradient=idle)
            for _ in range(count)]


CLIP_TRIAL = Trial(_clip_trial)
