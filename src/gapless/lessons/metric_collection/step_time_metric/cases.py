"""Lesson 03: the inputs of ``step_time_metric``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case


def time_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    cases = [Case(name, {}, {"times": rng.uniform(low, high, size=count).tolist()})
             for name, low, high, count in (("five steps", 60, 90, 5), ("one step", 0.5, 1.5, 1),
                                            ("a slow step", 1, 9000, 12), ("steps in seconds", 0.0004, 0.002, 7),
                                            ("300 steps", 60, 90, 300))]
    return [*cases, Case("whole numbers", {}, {"times": [70, 81, 75, 3]}),
            Case("a time of 0", {}, {"times": [0.0, 80.5, 62.25]})]
