"""Cases drawn from shapes × dtypes × layouts × values: what every exercise on tensors has to pass.

All combinations would be too many. :func:`covering` takes as many as the longest list has entries, so that each entry of
each list occurs, with another partner for each seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .evidence import Case
from .layout import LAYOUTS

CONTIGUOUS = "contiguous"
DTYPES = ("float32", "float64", "float16")  # of what has a fraction; NumPy has no bfloat16


def covering(rng: np.random.Generator, **lists: Sequence) -> list[dict]:
    """Combinations (name → entry) in which every entry of every list occurs at least once; the shorter lists are gone
    through again, each time in another order. The first holds every list's first entry: a plain fault shows on it."""
    count = max(map(len, lists.values()))
    columns = {}
    for name, entries in lists.items():
        places = [0, *(1 + int(place) for place in rng.permutation(len(entries) - 1))]
        while len(places) < count:
            places += [int(place) for place in rng.permutation(len(entries))]
        columns[name] = [entries[place] for place in places[:count]]
    return [{name: column[row] for name, column in columns.items()} for row in range(count)]


def varied(case: Case, dtype: str = "float32", layout: str = CONTIGUOUS) -> Case:
    """``case`` with those inputs that have a fraction in ``dtype``, and all laid out as ``layout``; its name says so."""

    def cast(array: np.ndarray) -> np.ndarray:
        return array.astype(dtype) if array.dtype.kind == "f" else array

    inputs = {name: [cast(each) for each in value] if isinstance(value, list) else cast(value)
              for name, value in case.inputs.items()}
    layouts = {} if layout == CONTIGUOUS else dict.fromkeys(case.inputs, layout)
    parts = [case.name, *([dtype] if dtype != "float32" else []), *([LAYOUTS[layout]] if layouts else [])]
    return replace(case, name=", ".join(parts), inputs=inputs, layouts=layouts)
