"""Lesson 04: what is said of a wrong answer of ``best_workers``."""

from __future__ import annotations

from ....course.evidence import Case
from .stage import WORKERS, times_of


def workers(case: Case, found: dict, wanted: dict) -> str:
    """What is known of the case's loader: an epoch's time for each number."""
    times, candidates = times_of(case.options), sorted(case.options["candidates"])
    told = ", ".join(f"{workers}: {times.epoch_ms(workers)[-1]:.3g}" for workers in candidates)
    return ("Once its workers run, and if nobody else uses the host, an epoch of this loader takes, in ms by the number of "
            f"workers, {told}. With {wanted[WORKERS]} it is within 5 % of the fastest, and no smaller number is. Read the "
            "time with `clock_ms(device)`: the host of a simulated GPU has its own clock.")
