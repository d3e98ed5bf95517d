"""Lesson 07: tensors for the exercises on fused operators, small ones and middling ones."""

from __future__ import annotations

import numpy as np

from ...course.evidence import Case
from ...course.exercise import Trial
from ...course.variants import CONTIGUOUS, covering, varied

LAYOUTS = (CONTIGUOUS, "transposed", "strided")
SHAPES = ((67,), (5, 7), (1,), (), (4, 3), (2, 3, 5), (0, 3))
VALUES = {"of both signs": 1.0, "far from zero": 30.0, "near zero": 1e-3, "zeros": 0.0}


def _elements(rng: np.random.Generator, name: str, shape: tuple[int, ...], scale: float = 1.0) -> Case:
    x, gradient = (np.asarray(rng.normal(size=shape), dtype=np.float32) for _ in range(2))
    return Case(name, {"x": np.asarray(scale * x, dtype=np.float32), "gradient": gradient})


# A compiled function is compiled anew for each dtype and most shapes, which takes real time: few of them.
_COMPILED_SHAPES = (67,), (5, 7), (1,)
_DTYPES = "float32", "float64"  # half precision tells the formula from the operator, which rounds once


def gelu_cases(seed: int) -> list[Case]:
    """Every kind of values, shape, layout and dtype at least once."""
    rng = np.random.default_rng(seed)
    return [varied(_elements(rng, pick["values"], pick["shape"], VALUES[pick["values"]]), pick["dtype"])
            for pick in covering(rng, values=list(VALUES), shape=_COMPILED_SHAPES, dtype=_DTYPES)]


ELEMENTS = 2**20  # of the talk's example: about a million
_TRIAL_ELEMENTS = 40_000  # about


def _element_trial(rng: np.random.Generator, count: int) -> list[Case]:
    shape = int(rng.integers(180, 220)), int(rng.integers(180, 220))
    return [_elements(rng, "a layer's numbers", shape) for _ in range(count)]


# As many bytes a millisecond as the talk's example has: what is small stays in the L2 cache.
ELEMENT_TRIAL = Trial(_element_trial, slowdown=1.7 * 64 * ELEMENTS / _TRIAL_ELEMENTS)

# -- swish ------------------------------------------------------------------------------------------


# Far below zero the slow function's gradient is nan.
MODERATE = {"of both signs": 1.0, "a few units": 3.0, "near zero": 1e-3, "zeros": 0.0}


def _chain(case: Case, depth: int, second: bool) -> Case:
    case.options.update(depth=depth, second=second)
    return case


def swish_cases(seed: int) -> list[Case]:
    """Every kind of values, shape, layout and dtype at least once, in chains of several lengths."""
    rng = np.random.default_rng(seed)
    return [varied(_chain(_elements(rng, pick["values"], pick["shape"], MODERATE[pick["values"]]), pick["depth"], True),
                   pick["dtype"], pick["layout"] if len(pick["shape"]) > 1 else CONTIGUOUS)
            for pick in covering(rng, values=list(MODERATE), shape=SHAPES, layout=LAYOUTS, dtype=_DTYPES, depth=(1, 2))]


SWISH_DEPTH = 6


def _swish_trial(rng: np.random.Generator, count: int) -> list[Case]:
    return [_chain(case, SWISH_DEPTH, False) for case in _element_trial(rng, count)]


SWISH_TRIAL = Trial(_swish_trial, slowdown=1.7 * 64 * ELEMENTS / _TRIAL_ELEMENTS)

# -- attention --------------------------------------------------------------------------------------

MASKS = ("causal", "all may look", "itself only", "drawn", "a padded end")


def _mask(rng: np.random.Generator, kind: str, batch: int, length: int) -> np.ndarray:
    """B×1×L×L; each query may look at one key at least."""
    if kind == "causal":
        one = np.tri(length, dtype=bool)
    elif kind == "all may look":
        one = np.ones((length, length), dtype=bool)
    elif kind == "itself only":
        one = np.eye(length, dtype=bool)
    elif kind == "drawn":
        drawn = rng.random((batch, 1, length, length)) < 0.5
        return drawn | np.eye(length, dtype=bool)
    else:
        lengths = rng.integers(1, length + 1, size=batch)
        return np.broadcast_to((np.arange(length) < lengths[:, None])[:, None, None], (batch, 1, length, length)).copy()
    return np.broadcast_to(one, (batch, 1, length, length)).copy()


def _attention(rng: np.random.Generator, kind: str, shape: tuple[int, int, int, int], scale: float = 1.0) -> Case:
    def numbers() -> np.ndarray:
        return scale * rng.normal(size=shape).astype(np.float32)

    return Case(f"mask: {kind}", {**{name: numbers() for name in "qkv"}, "mask": _mask(rng, kind, shape[0], shape[2]),
                                  "gradient": numbers()})


def attention_cases(seed: int) -> list[Case]:
    """Every mask, shape, dtype and layout at least once."""
    rng = np.random.default_rng(seed)
    shapes = ((2, 3, 7, 8), (1, 1, 1, 4), (3, 2, 5, 5), (2, 1, 12, 16), (1, 4, 9, 1), (0, 2, 3, 4))
    return [varied(_attention(rng, pick["mask"], pick["shape"]), pick["dtype"], pick["layout"])
            for pick in covering(rng, mask=MASKS, shape=shapes, dtype=_DTYPES, layout=LAYOUTS)]


def _attention_trial(rng: np.random.Generator, count: int) -> list[Case]:
    shape = 8, 8, int(rng.integers(90, 110)), 16
    return [_attention(rng, "drawn", shape) for _ in range(count)]


ATTENTION_TRIAL = Trial(_attention_trial, slowdown=400)

# -- the head of a language model -----------------------------------------------------------------------


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
    """Every kind of head, dtype and layout at least once, and a row of zeros."""
    rng = np.random.default_rng(seed)
    cases = [_head(rng, kind, *sizes) for kind, sizes in _HEADS.items()]
    cases = [varied(case, pick["dtype"], pick["layout"])
             for case, pick in zip(cases, covering(rng, case=list(_HEADS), dtype=_DTYPES, layout=LAYOUTS))]
    near_zero = _head(rng, "a row near zero", 6, 5, 8, ignored=0.0)
    for name in ("x", "residual"):
        near_zero.inputs[name][2] *= 1e-3
    return [*cases, near_zero]


def _head_trial(rng: np.random.Generator, count: int) -> list[Case]:
    rows, width, words = (int(each) for each in (rng.integers(380, 420), rng.integers(28, 36), rng.integers(750, 850)))
    return [_head(rng, "a batch of words", rows, width, words) for _ in range(count)]


HEAD_TRIAL = Trial(_head_trial, slowdown=400)
