"""Lesson 06: why an answer to ``update_average`` is wrong, where no known mistake gives it."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from .stage import AVERAGES


def explain_average(case: Case, found: dict, wanted: dict) -> str | None:
    """Of the first average that is wrong after one update: which share of its parameter is in it."""
    decay = case.options["decay"]
    for place, (old, new) in enumerate(zip(case.inputs["averages"], case.inputs["parameters"])):
        own, old, new = (np.asarray(each, np.float64).ravel() for each in (found[AVERAGES][place], old, new))
        if case.options["steps"] > 1 or np.allclose(own, np.ravel(wanted[AVERAGES][place]), 1e-4, 1e-5):
            continue
        share = (own - old) @ (new - old) / ((new - old) @ (new - old))
        if not np.allclose(own, old + share * (new - old), 1e-3, 1e-3):
            return None
        if abs(share) < 1e-6:
            return (
                f"Average {place}, of shape {np.shape(case.inputs[AVERAGES][place])}, has not changed. Update each of them.")
        return (f"Average {place} contains {share:.4g} of its parameter. It must be 1 - decay = {1 - decay:.4g}, in each "
                "update.")
    return None
