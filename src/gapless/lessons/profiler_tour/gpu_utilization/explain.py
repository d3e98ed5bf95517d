"""Lesson 01: why an answer to ``gpu_utilization`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from ....course.evidence import Case
from ..explain import explain_share


def utilization(case: Case, found, wanted) -> str | None:
    return explain_share(case, found, wanted, (
        "Print the merged intervals and the two ends of the steps' time for the trace of "
        "the lesson, and compare with the timeline picture."))
