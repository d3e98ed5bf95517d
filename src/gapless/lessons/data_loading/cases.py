"""Lesson 04: the inputs on which answers are compared, small and middling, and those at full size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ...course.evidence import Case
from ...course.exercise import Trial
from ...course.stage import Given
from ...course.variants import CONTIGUOUS, DTYPES, covering, varied
from .workload import ELEMENTS, LIMIT

SHAPES = ((67,), (5, 7), (1,), (4, 3), (2, 3, 5))
SCALES = {"above the limit": 1.0, "below the limit": 0.001, "far above the limit": 100.0, "zeros": 0.0}
LAYOUTS = (CONTIGUOUS, "transposed", "strided")


def _case(rng: np.random.Generator, name: str, shape: tuple[int, ...], limit: float, scale: float = 1.0) -> Case:
    return Case(name, {"x": (scale * rng.normal(size=shape)).astype(np.float32)}, {"limit": limit})


def scaling_cases(seed: int) -> list[Case]:
    """Every shape, scale, layout and dtype at least once."""
    rng = np.random.default_rng(seed)
    return [varied(_case(rng, pick["scale"], pick["shape"], 1.0, SCALES[pick["scale"]]), pick["dtype"], pick["layout"])
            for pick in covering(rng, scale=list(SCALES), shape=SHAPES, layout=LAYOUTS, dtype=DTYPES)]


_TRIAL_ELEMENTS = 50_000  # about


def _trial(rng: np.random.Generator, count: int) -> list[Case]:
    shape = int(rng.integers(180, 220)), int(rng.integers(225, 275))
    return [_case(rng, "an update", shape, LIMIT) for _ in range(count)]


# More than the ratio of the sizes: what is small stays in the L2 cache.
SCALING_TRIAL = Trial(_trial, slowdown=1.7 * ELEMENTS / _TRIAL_ELEMENTS)


def full_scaling(device: torch.device) -> Callable[[], Given]:
    x = torch.randn(ELEMENTS, device=device)
    return lambda: Given({"x": x.clone()}, {"limit": LIMIT})
