"""Lesson 07: the inputs of ``forward``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....course.evidence import Case
from ....course.exercise import Trial
from ....course.variants import varied


def _product(rng: np.random.Generator, name: str, rows: int, width: int, columns: int, sign: float) -> Case:
    """A product whose mean is of that ``sign``, by its last row: most of its numbers are of the other."""
    x, weight = rng.normal(size=(rows, width)), rng.normal(size=(width, columns))
    x[:, 0], weight[0] = -1.0, sign * 8.0
    x[-1, 0] = 2.0 * rows
    # Closer than float16 comes, which rounds by 5e-4.
    return Case(name, {"x": x.astype(np.float32), "weight": weight.astype(np.float32)}, {"counts": True},
                tolerance=(5e-5, 5e-6))


def _hardly_positive(rng: np.random.Generator, rows: int, width: int, columns: int) -> Case:
    """A product in float64, whose mean is above 0 by 1e-7 of its largest number; all digits tell."""
    x, weight = rng.normal(size=(rows, width)), rng.normal(size=(width, columns))
    weight[0] = 1.0
    h = x @ weight
    x[:, 0] += 1e-7 * np.abs(h - h.mean()).max() - h.mean()
    return replace(varied(Case("a mean just above 0", {"x": x, "weight": weight}, {"counts": False}), "float64"),
                   tolerance=(1e-9, 1e-11))


def forward_cases(seed: int) -> list[Case]:
    """Both activations, for two shapes; a mean of 0 and just above it; and what is not a number."""
    rng = np.random.default_rng(seed)
    shape, row = [int(each) for each in rng.integers(3, 9, size=3)], (1, int(rng.integers(2, 6)), 1)
    cases = [_product(rng, f"a {kind} mean{words}", *sizes, sign)
             for words, sizes in (("", shape), (", one row, one column", row))
             for kind, sign in (("positive", 1.0), ("negative", -1.0))]
    cases.append(_product(rng, "a nan in the middle", *shape, 1.0))
    cases[-1].inputs["x"][0, 0] = np.nan
    cases.append(Case("a mean of exactly 0", {"x": np.float32([[1, 1], [-1, -1]]), "weight": np.ones((2, 3), np.float32)},
                      {"counts": False}))
    cases.append(Case("zeros", {name: np.zeros_like(value) for name, value in cases[0].inputs.items()}, {"counts": False}))
    return [*cases, _hardly_positive(rng, *shape)]


def _forward_trial(rng: np.random.Generator, count: int) -> list[Case]:
    shape = [int(each) for each in rng.integers(90, 110, size=3)]
    cases = [_product(rng, "a layer", *shape, float(rng.choice((-1.0, 1.0)))) for _ in range(count)]
    for case in cases:
        case.options["counts"] = False
    return cases


FORWARD_TRIAL = Trial(_forward_trial, slowdown=1000.0)
