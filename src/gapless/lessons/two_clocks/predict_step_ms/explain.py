"""Lesson 00: why an answer to ``predict_step_ms`` is wrong, where no known mistake gives it."""

from __future__ import annotations

import math

from ....course.evidence import Case
from ..explain import no_number
from ..stage import ANSWER


def prediction(case: Case, found: dict, wanted: dict) -> str | None:
    """By its form and its unit."""
    own, true = found.get(ANSWER), wanted[ANSWER]
    if isinstance(own, bool) or not isinstance(own, (int, float)):
        return no_number(own)
    for unit, factor in (("seconds", 1e-3), ("microseconds", 1e3)):
        if math.isclose(own, factor * true, rel_tol=0.1):
            return f"That is in {unit}: return milliseconds."
    if isinstance(own, int) and own in (math.floor(true), round(true)):
        return "Your number is rounded: return it as it is."
    return ("Work out one kernel at a time. How long does it compute, and how long does it move its bytes? Then: how long "
            "does the host need?")
