"""Lesson 01: why an answer to ``why_idle`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from ....course.evidence import Case
from ..cases import trace_of
from ..explain import of_case
from .right import idle_evidence
from .traces import SLOW_LOADER, SMALL_BATCH, SMALL_KERNELS


def idle(case: Case, found, wanted) -> str:
    labels = (SMALL_BATCH, SMALL_KERNELS, SLOW_LOADER)
    if found not in labels:
        near = next((label for label in labels if isinstance(found, str) and label.split()[-1] in found.lower()), None)
        spelt = f" {near!r} is spelt like this, to the letter." if near else ""
        return f"Return one of {', '.join(map(repr, labels))}.{spelt}"
    launching, filled = idle_evidence(trace_of(case))
    if launching < 0.5:
        verdict = "For most of the time it does something else, and the GPU has nothing to do; an " \
                  "operator that launches nothing is no work for it either."
    elif filled < 0.5:
        verdict = "So the host launches as fast as it can, and its kernels are too small to fill the card."
    else:
        verdict = "So the host launches as fast as it can, and its kernels fill the card, but end too early."
    return (f"{of_case(case)}The evidence: in {launching:.0%} of the steps' time the host is in an operator that launches "
            f"work; while a kernel runs, {filled:.0%} of the SMs have a block. {verdict}")
