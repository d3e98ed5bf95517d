"""Lesson 09: a made-up run to look at."""

from __future__ import annotations

import numpy as np

from ....evidence.traces.trace import Trace
from .cases import SLOWED
from .traces import even_plan, simulate


def made_up_run(slow: str = "slower kernels", rank: int = 2, world: int = 4, seed: int = 9) -> list[Trace]:
    """The traces of its ranks, in order. ``slow``: what is the matter, a key of ``SLOWED``. Nothing of it is measured."""
    return simulate(SLOWED[slow](even_plan(np.random.default_rng(seed), world, steps=4, waits=True), rank))
