"""Lesson 07: the inputs of ``swish``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ....course.exercise import Trial
from ....course.variants import CONTIGUOUS, covering, varied
from ..cases import DTYPES, ELEMENTS, LAYOUTS, TRIAL_ELEMENTS, element_trial, elements, exact, with_nan, without_gradient

SHAPES = ((67,), (5, 7), (1,), (), (4, 3), (2, 3, 5), (0, 3))
# Far below zero the slow function's gradient is nan.
MODERATE = {"of both signs": 1.0, "a few units": 3.0, "near zero": 1e-3, "zeros": 0.0}


def _chain(case: Case, depth: int, second: bool) -> Case:
    case.options.update(depth=depth, second=second)
    return case


def swish_cases(seed: int) -> list[Case]:
    """Every kind of values, shape, layout and dtype at least once, in chains of several lengths; numbers whose last digits
    tell, and no gradient."""
    rng = np.random.default_rng(seed)
    cases = [varied(_chain(elements(rng, pick["values"], pick["shape"], MODERATE[pick["values"]]), pick["depth"], True),
                    pick["dtype"], pick["layout"] if len(pick["shape"]) > 1 else CONTIGUOUS)
             for pick in covering(rng, values=list(MODERATE), shape=SHAPES, layout=LAYOUTS, dtype=DTYPES, depth=(1, 2))]
    far = elements(rng, "far above zero", (9,), 2000.0)
    np.abs(far.inputs["x"], out=far.inputs["x"])
    tens = exact(elements(rng, "some tens", (67,), 10.0))
    one_nan, no_gradient = (_chain(elements(rng, "of both signs", (5, 7)), *each) for each in ((2, True), (1, False)))
    return [*cases, _chain(far, 1, True), _chain(tens, 1, True), with_nan(one_nan), without_gradient(no_gradient)]


SWISH_DEPTH = 6


def _swish_trial(rng: np.random.Generator, count: int) -> list[Case]:
    return [_chain(case, SWISH_DEPTH, False) for case in element_trial(rng, count)]


SWISH_TRIAL = Trial(_swish_trial, slowdown=1.7 * 64 * ELEMENTS / TRIAL_ELEMENTS)
