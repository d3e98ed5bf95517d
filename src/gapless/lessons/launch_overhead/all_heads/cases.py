"""Lesson 06: heads to be computed at once, small ones and middling ones."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ....course.exercise import Trial
from ....course.variants import CONTIGUOUS, DTYPES, covering, varied

LAYOUTS = (CONTIGUOUS, "transposed", "strided")


def _heads(rng: np.random.Generator, name: str, leading: tuple[int, ...], heads: int, size: tuple[int, int],
           last: tuple[int, int] | None = None, again: bool = True) -> Case:
    """``heads`` of ``size`` (features × width), and one more of the size ``last``. Whole numbers, which have the same sums
    in every order and in float16 too."""
    sizes = [size] * heads + ([last] if last is not None else [])

    def numbers(*shape: int) -> np.ndarray:
        return rng.integers(-4, 5, size=shape).astype(np.float32)

    return Case(name, {"x": numbers(*leading, sum(features for features, _ in sizes)),
                       "weights": [numbers(*each) for each in sizes],
                       "gradient": numbers(*leading, sum(width for _, width in sizes))}, {"again": again})


# Name → leading dimensions, heads, their size, the last one's.
_KINDS = {
    "four heads": ((7,), 4, (3, 5), None),
    "a last head that is smaller": ((6,), 3, (5, 4), (2, 3)),
    "a last head of fewer features": ((5,), 4, (5, 3), (2, 3)),
    "a last head that is narrower": ((5,), 2, (3, 6), (3, 1)),
    "one head": ((4,), 1, (6, 3), None),
    "one head and a smaller one": ((3,), 1, (7, 5), (1, 2)),
    "no heads": ((4,), 0, (3, 2), None),
    "a batch of none": ((0, 3), 3, (4, 2), (1, 1)),
    "square heads": ((4,), 5, (4, 4), (3, 3)),
    "one row": ((1,), 3, (5, 7), (4, 2)),
    "a batch of sequences": ((2, 5), 3, (4, 3), (3, 2)),
    "one vector": ((), 4, (3, 2), (2, 2)),
    "heads of one feature and width 1": ((9,), 6, (1, 1), None),
}


def head_cases(seed: int) -> list[Case]:
    """Every kind of heads, dtype and layout at least once."""
    rng = np.random.default_rng(seed)
    cases = [varied(_heads(rng, pick["kind"], *_KINDS[pick["kind"]]), pick["dtype"], pick["layout"])
             for pick in covering(rng, kind=list(_KINDS), layout=LAYOUTS, dtype=DTYPES)]
    return [*cases, _infinite(rng), _of_many_digits(rng)]


def _infinite(rng: np.random.Generator) -> Case:
    """What one head gets is no other head's business."""
    case = _heads(rng, "an infinite number in what one head gets", (3,), 3, (4, 4), (2, 3))
    case.inputs["x"][1, int(rng.integers(4, 8))] = np.inf
    return case


def _of_many_digits(rng: np.random.Generator) -> Case:
    """Sums that float32 holds, and float16 rounds."""
    case = _heads(rng, "results of five digits", (5,), 3, (4, 4), (2, 3))
    case.inputs["x"] *= 500
    return case


def _trial(rng: np.random.Generator, count: int) -> list[Case]:
    """Of two kinds in turn, each about as much work."""
    rows, features, width = (int(each) for each in rng.integers(20, 30, size=3))
    size, last = (features // 2, width // 2), (int(rng.integers(2, features)) // 2, int(rng.integers(2, width)) // 2)
    return [_heads(rng, "many heads, a batch of sequences", (rows // 2, 2), HEADS, size, last, again=False) if place % 2 else
            _heads(rng, "many heads, all of one size", (rows,), HEADS + 1, size, again=False) for place in range(count)]


HEADS = 40  # of a trial, beside the last
# It is the host that sets the pace, here as at full size.
HEAD_TRIAL = Trial(_trial)
