"""Lesson 07: the inputs of ``make_step``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from .stage import WIDTH

MANY, LONGEST = 50, 160  # lengths


def length_cases(seed: int) -> list[Case]:
    """Batches of 50 lengths, the longest among them, one of which comes again; and a few that require a gradient, the model
    in evaluation mode."""
    rng = np.random.default_rng(seed)
    lengths = [*(int(each) for each in 2 + rng.permutation(LONGEST - 2)[:MANY - 1]), LONGEST]
    lengths.append(lengths[int(rng.integers(5, MANY - 5))])
    rows = int(rng.integers(2, 5))

    def case(name: str, lengths: list[int], **options) -> Case:
        batches = [rng.normal(size=(rows, length, WIDTH)).astype(np.float32) for length in lengths]
        return Case(name, {"batches": batches}, {"seed": int(rng.integers(2**31)), **options})

    return [case(f"{MANY} lengths", lengths, training=True, grad=False),
            case("batches that require a gradient, and a model in evaluation mode", lengths[:3], training=False, grad=True)]
