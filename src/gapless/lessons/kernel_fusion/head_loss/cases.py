"""Lesson 07: the inputs of ``head_loss``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ....course.exercise import Trial
from ....course.variants import covering, varied
from ..cases import DTYPES, LAYOUTS, exact, with_nan, without_gradient


def _head(rng: np.random.Generator, name: str, rows: int, width: int, words: int, ignored: float = 0.2) -> Case:
    def numbers(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    target = rng.integers(0, words, size=rows)
    target[1:][rng.random(rows - 1) < ignored] = -100  # one counts at least
    return Case(name, {"x": numbers(rows, width), "residual": numbers(rows, width), "gate": numbers(rows, width),
                       "weight": numbers(width), "projection": numbers(words, width), "target": target})


_HEADS = {
    "some are ignored": (12, 8, 10, 0.3),
    "none is ignored": (7, 16, 5, 0.0),
    "all but one are ignored": (9, 4, 6, 1.0),
    "one row": (1, 5, 7, 0.0),
    "one word": (6, 3, 1, 0.2),
    "width 1": (5, 1, 4, 0.2),
    "many words": (10, 6, 130, 0.2),
}


def head_cases(seed: int) -> list[Case]:
    """Every kind of head, dtype and layout at least once, a row near zero, numbers whose last digits tell, no gradient, and
    no target that counts."""
    rng = np.random.default_rng(seed)
    cases = [_head(rng, kind, *sizes) for kind, sizes in _HEADS.items()]
    cases = [varied(case, pick["dtype"], pick["layout"])
             for case, pick in zip(cases, covering(rng, case=list(_HEADS), dtype=DTYPES, layout=LAYOUTS))]
    near_zero = _head(rng, "a row near zero", 6, 5, 8, ignored=0.0)
    for name in ("x", "residual"):
        near_zero.inputs[name][2] *= 1e-3
    all_digits = exact(_head(rng, "some are ignored", 8, 6, 9))
    one_nan = with_nan(_head(rng, "none is ignored", 6, 5, 8, ignored=0.0))
    no_gradient = without_gradient(_head(rng, "some are ignored", 4, 3, 5, ignored=0.3))
    none_counts = without_gradient(_head(rng, "all are ignored", 4, 3, 5))
    none_counts.inputs["target"][:] = -100
    return [*cases, near_zero, one_nan, all_digits, no_gradient, none_counts]


def _head_trial(rng: np.random.Generator, count: int) -> list[Case]:
    rows, width, words = (int(each) for each in (rng.integers(380, 420), rng.integers(28, 36), rng.integers(750, 850)))
    return [_head(rng, "a batch of words", rows, width, words) for _ in range(count)]


HEAD_TRIAL = Trial(_head_trial, slowdown=400)
