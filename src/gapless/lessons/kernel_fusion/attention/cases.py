"""Lesson 07: the inputs of ``attention``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....course.evidence import Case
from ....course.exercise import Trial
from ....course.variants import covering, varied
from ..cases import DTYPES, LAYOUTS, exact, with_nan, without_gradient

MASKS = ("causal", "all may look", "itself only", "drawn", "a padded end")


def _mask(rng: np.random.Generator, kind: str, batch: int, length: int) -> np.ndarray:
    """B×1×L×L; each query may look at one key at least. "never itself" needs a length of two or more."""
    if kind == "causal":
        one = np.tri(length, dtype=bool)
    elif kind == "all may look":
        one = np.ones((length, length), dtype=bool)
    elif kind == "itself only":
        one = np.eye(length, dtype=bool)
    elif kind == "never itself":
        drawn = rng.random((batch, 1, length, length)) < 0.5
        return (drawn | np.roll(np.eye(length, dtype=bool), 1, axis=1)) & ~np.eye(length, dtype=bool)
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
    """Every mask, shape, dtype and layout at least once; a mask without its diagonal, an expanded one, a nan, and no
    gradient."""
    rng = np.random.default_rng(seed)
    shapes = ((2, 3, 7, 8), (1, 1, 1, 4), (3, 2, 5, 5), (2, 1, 12, 16), (1, 4, 9, 1), (0, 2, 3, 4))
    cases = [varied(_attention(rng, pick["mask"], pick["shape"]), pick["dtype"], pick["layout"])
             for pick in covering(rng, mask=MASKS, shape=shapes, dtype=DTYPES, layout=LAYOUTS)]
    cases[0].options["again"] = True
    expanded = _attention(rng, "a padded end", (2, 2, 5, 4))
    expanded = replace(expanded, name=f"{expanded.name}, one row expanded to all queries", options={"expanded": True})
    large = exact(_attention(rng, "never itself", (2, 3, 6, 4), scale=200.0))  # scores of 40,000 and more
    return [*cases, exact(_attention(rng, "never itself", (2, 3, 6, 4))), replace(large, name=f"{large.name}, large scores"),
            expanded, with_nan(_attention(rng, "all may look", (1, 2, 4, 3)), "v"),
            without_gradient(_attention(rng, "drawn", (1, 2, 4, 3)))]


def _attention_trial(rng: np.random.Generator, count: int) -> list[Case]:
    shape = 8, 6, int(rng.integers(130, 150)), 16
    return [_attention(rng, "drawn", shape) for _ in range(count)]


ATTENTION_TRIAL = Trial(_attention_trial, slowdown=400)
