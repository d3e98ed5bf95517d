"""Lesson 05: why a rate of `warmup_schedule` is wrong, where no known mistake gives it."""

from __future__ import annotations

import math

from ....course.evidence import Case
from .stage import OTHERS


def explain_schedule(case: Case, found: dict, wanted: dict) -> str | None:
    """The first step whose rate is another, by how much, and what the curve is there."""
    factor, warmup, total = (case.options[name] for name in ("factor", "warmup", "total"))
    for base, (group, rates) in zip(case.options["rates"], wanted.items()):
        for step, (own, right) in enumerate(zip(found[group], rates)):
            if not math.isclose(own, right, rel_tol=case.tolerance[0], abs_tol=case.tolerance[1]):
                curve = (f"a line from 1 to {factor:g}" if step < warmup else
                         f"half a cosine from {factor:g} at step {warmup} to 0 at step {total}, and 0 from there on")
                return (f"At step {step} of {total} (the warm-up has {warmup}) the rate is the group's own times "
                        f"{own / base:.4g}, and wanted is that times {right / base:.4g}: {curve}.")
    if found[OTHERS] != wanted[OTHERS]:
        return "The rates are right. Change only the learning rate."
    return None
