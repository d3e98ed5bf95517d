"""Lesson 01: what is right for ``why_idle``."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict

from ....evidence import views
from ....evidence.traces.trace import Trace
from ..right import steps_time
from .traces import SLOW_LOADER, SMALL_BATCH, SMALL_KERNELS


def right_why_idle(trace):
    launching, filled = idle_evidence(trace)
    if launching < 0.5:
        return SLOW_LOADER
    return SMALL_BATCH if filled < 0.5 else SMALL_KERNELS


def idle_evidence(trace: Trace) -> tuple[float, float]:
    """Two shares: of the steps' time in which the host was inside an operator that launched work, on the operator's own
    thread; and of the card that had a block while a kernel ran."""
    start_us, end_us = steps_time(trace)
    calls: dict[tuple, list[float]] = defaultdict(list)
    for span in trace.spans:
        if span.category == "runtime" and "aunch" in span.name:
            calls[span.thread].append(span.start_us)
    launching_us, reached_us = 0.0, float("-inf")
    for op in trace.spans:  # outer before inner
        if op.category != "op" or op.end_us <= reached_us:
            continue
        here = calls[op.thread]
        at = bisect_left(here, op.start_us)
        if at < len(here) and here[at] < op.end_us:
            launching_us += op.end_us - max(op.start_us, reached_us)
            reached_us = op.end_us
    return launching_us / (end_us - start_us), views.sm_efficiency(trace) / views.gpu_utilization(trace)
