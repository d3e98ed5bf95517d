"""Lesson 01: why an answer to ``achieved_occupancy`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from ....course.evidence import Case
from ..explain import explain_share


def occupancy(case: Case, found, wanted) -> str | None:
    return explain_share(case, found, wanted, (
        "Sum of occupancy times duration, by the sum of the durations, as they are, over all kernels "
        "that tell: once, and not for each step, or each name, by itself."))
