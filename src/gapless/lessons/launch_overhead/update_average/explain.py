"""Lesson 06: why an answer to ``update_average`` is wrong, where no known mistake gives it."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from .stage import AVERAGES, MOVED


def explain_average(case: Case, found: dict, wanted: dict) -> str | None:
    """Averages that moved, or parameters of an earlier step; else of the first average that is wrong after one update,
    which share of its parameter is in it."""
    decay = case.options["decay"]
    if found[MOVED]:
        return ("The averages are in new memory, and other code that holds the old memory sees no change. Change them in "
                "place: the names of in-place functions end in `_`.")
    if case.options["renewed"]:
        return ("Here each step has new parameters, and the averages stay the same. Take the parameters from the argument "
                "in each call, and keep nothing from one call to the next.")
    for place, (old, new) in enumerate(zip(case.inputs["averages"], case.inputs["parameters"])):
        own, old, new = (np.asarray(each, np.float64).ravel() for each in (found[AVERAGES][place], old, new))
        if case.options["steps"] > 1 or np.allclose(own, np.ravel(wanted[AVERAGES][place]), 1e-4, 1e-5):
            continue
        share = (own - old) @ (new - old) / ((new - old) @ (new - old))
        if not np.allclose(own, old + share * (new - old), 1e-3, 1e-3):
            return None
        if abs(share) < 1e-6:
            frozen = "Its parameter is frozen (it requires no gradient). " if place in case.options["frozen"] else ""
            return (f"Average {place}, of shape {np.shape(case.inputs[AVERAGES][place])}, has not changed. {frozen}Update "
                    f"each of them by 1 - decay = {1 - decay:.4g} of its parameter.")
        if np.isclose(share, 1 - decay, 2e-3):
            return (f"Average {place} is close to that, but rounded to another dtype. Convert each parameter to the dtype "
                    "of its own average.")
        return (f"Average {place} contains {share:.4g} of its parameter. It must be 1 - decay = {1 - decay:.4g}, in each "
                "update.")
    return None
