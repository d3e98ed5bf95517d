"""Lesson 01: the measures of a trace, right (:mod:`gapless.evidence.views`)."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict

import torch

from ...evidence import views
from ...evidence.trace import Span, Trace
from .traces import SLOW_LOADER, SMALL_BATCH, SMALL_KERNELS

ENOUGH = 0.95  # of the best throughput
WORK = ("kernel", "memcpy", "memset")


def steps_of(trace: Trace) -> list[Span]:
    return [span for span in trace.spans if span.category == "annotation" and span.name.startswith("ProfilerStep#")]


def steps_time(trace: Trace) -> tuple[float, float]:
    """Begin and end of the steps' time, in µs, where nothing is in flight before the first step."""
    steps = steps_of(trace)
    work = [span.end_us for span in trace.spans if span.category in WORK]
    return steps[0].start_us, max([steps[-1].end_us, *work])


def right_top_operators(trace, k):
    return [{"name": row.name, "calls": row.calls, "device_self_us": row.device_self_us,
             "device_total_us": row.device_total_us} for row in views.top_operators(trace, k)]


MEMORY_FIELDS = ("size_increase_bytes", "self_size_increase_bytes", "allocation_bytes", "self_allocation_bytes")


def right_memory_by_operator(trace):
    return {row.name: {name: getattr(row, name) for name in MEMORY_FIELDS} for row in views.memory_by_operator(trace)}


def right_source_of(trace, kernel_name):
    return {row.location: row.total_us for row in views.source_of(trace, kernel_name) if row.location is not None}


def right_choose_batch_size(measure, candidates):
    speeds = {}
    for batch in candidates:
        try:
            speeds[batch] = batch / measure(batch).step_ms
        except torch.OutOfMemoryError:
            continue
    return min(batch for batch, speed in speeds.items() if speed >= ENOUGH * max(speeds.values()))


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
