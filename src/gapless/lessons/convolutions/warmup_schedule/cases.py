"""Lesson 05: the inputs of ``warmup_schedule``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case


def schedule_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def case(name: str, factor: float, warmup: int, total: int, groups: int = 1, **options) -> Case:
        rates = [round(float(rate), 4) for rate in rng.uniform(0.01, 0.5, size=groups)]
        # The rate is exactly 0 in the end: a small one is not.
        return Case(name, {}, {"factor": factor, "warmup": warmup, "total": total, "rates": rates, **options},
                    tolerance=(1e-5, 1e-9))

    def between(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    return [
        case("a batch eight times as large", 8.0, between(5, 9), between(20, 30)),
        case("no warm-up", 4.0, 0, between(10, 20)),
        case("one step of warm-up", 4.0, 1, between(10, 20)),
        case("the same batch", 1.0, between(3, 6), between(10, 20)),
        case("three groups, each at a rate of its own", 16.0, between(5, 9), between(20, 30), groups=3),
        case("a smaller batch", 0.5, between(3, 6), between(10, 20)),
        case("one step after the warm-up", 2.0, 6, 7),
        case("saved in the warm-up, and loaded", 8.0, between(6, 9), between(20, 30), groups=2, resumed=between(1, 5)),
        case("saved after the warm-up, and loaded", 8.0, between(3, 6), between(20, 30), resumed=between(8, 15)),
    ]
