"""Lesson 07: the inputs of ``gelu``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ....course.exercise import Trial
from ....course.variants import covering, varied
from ..cases import DTYPES, ELEMENTS, TRIAL_ELEMENTS, element_trial, elements, exact, with_nan, without_gradient

VALUES = {"of both signs": 1.0, "far from zero": 30.0, "near zero": 1e-3, "zeros": 0.0}
# A compiled function is compiled again for each dtype and most shapes, which takes real time: few of them.
_COMPILED_SHAPES = (67,), (5, 7), (1,)


def _twice(case: Case) -> Case:
    case.options["second"] = True
    return case


def gelu_cases(seed: int) -> list[Case]:
    """Every kind of values, shape and dtype at least once; numbers whose last digits tell, another layout, no gradient."""
    rng = np.random.default_rng(seed)
    cases = [_twice(varied(elements(rng, pick["values"], pick["shape"], VALUES[pick["values"]]), pick["dtype"]))
             for pick in covering(rng, values=list(VALUES), shape=_COMPILED_SHAPES, dtype=DTYPES)]
    return [*cases, exact(elements(rng, "a few units", (67,), 3.0)), with_nan(elements(rng, "of both signs", (67,))),
            varied(elements(rng, "of both signs", (5, 7)), layout="transposed"),
            without_gradient(elements(rng, "of both signs", (67,)))]


# As many bytes a millisecond as the talk's example has: what is small stays in the L2 cache.
ELEMENT_TRIAL = Trial(element_trial, slowdown=1.7 * 64 * ELEMENTS / TRIAL_ELEMENTS)
