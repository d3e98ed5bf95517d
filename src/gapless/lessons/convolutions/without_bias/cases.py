"""Lesson 05: the inputs of ``without_bias``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ....course.exercise import Trial
from .stage import CHANNELS, NETWORKS

_SIDES = {"one dimension": (11,), "three dimensions": (5, 6, 4), "transposed, one dimension": (7,),
          "transposed, three dimensions": (3, 4, 2)}


def _network(rng: np.random.Generator, name: str, batch: int, sides: tuple[int, ...], kind=np.float32) -> Case:
    images = rng.normal(size=(batch, CHANNELS, *sides)).astype(kind)
    return Case(name, {"images": images}, {"network": name, "seed": int(rng.integers(2**31))})


def bias_cases(seed: int) -> list[Case]:
    """Every network once, one of them in float64."""
    rng = np.random.default_rng(seed)
    cases = [_network(rng, name, 4, _SIDES.get(name, (8, 8))) for name in NETWORKS if name != "wide"]
    double = _network(rng, "a residual connection around the norm", 3, (7, 5), np.float64)
    double.name += ", in float64"
    return [*cases, double]


def _bias_trial(rng: np.random.Generator, count: int) -> list[Case]:
    sides = int(rng.integers(28, 36)), int(rng.integers(28, 36))
    return [_network(rng, "wide", 4, sides) for _ in range(count)]


BIAS_TRIAL = Trial(_bias_trial, slowdown=300.0)
