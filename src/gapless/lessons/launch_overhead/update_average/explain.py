"""Lesson 06: why an answer to ``update_average`` is wrong, where no known mistake gives it."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from .stage import AVERAGES, FIRST, MOVED, REPLACED


def explain_average(case: Case, found: dict, wanted: dict) -> str | None:
    """Averages or parameters that moved; else of the first average that is wrong after the first update, which share of its
    parameter is in it; or that only a later update is wrong."""
    decay = case.options["decay"]
    if found[MOVED]:
        return ("The averages are in new memory, and other code that holds the old memory sees no change. Change them in "
                "place: the names of in-place functions end in `_`.")
    if found[REPLACED]:
        return ("You have changed the parameters themselves, which belong to the network: they have another dtype, or new "
                "memory. `parameter.to(dtype)` returns a new tensor.")
    for place, (old, new) in enumerate(zip(case.inputs["averages"], case.inputs["parameters"])):
        dtype = "bfloat16" if place in case.options["bfloat16"] else old.dtype
        own, right = (np.ravel(answer[FIRST if answer[FIRST] else AVERAGES][place]) for answer in (found, wanted))
        if np.allclose(own, right, *(case.tolerance or (1e-4, 1e-5))):
            continue
        old, new = (np.asarray(each, np.float64).ravel() for each in (old, new))
        share = (own - old) @ (new - old) / ((new - old) @ (new - old))
        if not np.allclose(own, old + share * (new - old), 1e-3, 1e-3):
            return None
        if abs(share) < 1e-6:
            frozen = "Its parameter is frozen (it requires no gradient). " if place in case.options["frozen"] else ""
            return (f"Average {place}, of shape {np.shape(case.inputs[AVERAGES][place])} in {dtype}, has not changed. "
                    f"{frozen}Update each of them by 1 - decay = {1 - decay:.4g} of its parameter.")
        if np.isclose(share, 1 - decay, 2e-3):
            return (f"Average {place} is close to that, but rounded to another dtype. Convert each parameter to the dtype "
                    "of its own average.")
        return (f"Average {place} contains {share:.4g} of its parameter. It must be 1 - decay = {1 - decay:.4g}, in each "
                "update.")
    if case.options["renewed"]:
        return ("The first call is right. Each later call has new parameters, and both lists in another order. Take all "
                "tensors from the arguments in each call, and keep nothing from one call to the next.")
    return None
