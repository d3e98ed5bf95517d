"""Lesson 04: what is said of a wrong answer of ``best_workers``."""

from __future__ import annotations

from ....course.evidence import Case
from .stage import WORKERS, times_of


def workers(case: Case, found: dict, wanted: dict) -> str:
    """What is known of the case's loader: an epoch's time for each number."""
    times, candidates = times_of(case.options), sorted(case.options["candidates"])
    told = ", ".join(f"{workers}: {times.epoch_ms(workers)[-1]:.3g}" for workers in candidates)
    return ("Once its workers are there, and while nobody disturbs it, an epoch of this loader takes, in ms by the number "
            f"of workers, {told}. With {wanted[WORKERS]} it is within 5 % of the fastest, with no smaller number. Read the "
            "time with `clock_ms(device)`; a simulated GPU's host has a clock of its own.")
