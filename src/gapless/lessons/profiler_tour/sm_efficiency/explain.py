"""Lesson 01: why an answer to ``sm_efficiency`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from ....course.evidence import Case
from ..explain import explain_share


def efficiency(case: Case, found, wanted) -> str | None:
    return explain_share(case, found, wanted, (
        "Cut the steps' time at every start and end of a kernel. Between two cuts nothing "
        "changes: add up the blocks per SM of the kernels running, at most 1, times the "
        "length."))
