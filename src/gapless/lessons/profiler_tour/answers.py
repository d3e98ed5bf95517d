"""Lesson 01's measures of a trace: as handed out (the usual wrong ways), and right (:mod:`gapless.views`)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ...evidence import views
from ...evidence.trace import Span, Trace
from .traces import SLOW_LOADER, SMALL_BATCH, SMALL_KERNELS, line_of

ENOUGH = 0.95  # of the best throughput
WORK = ("kernel", "memcpy", "memset")


@dataclass(frozen=True)
class Measured:
    """A training step at some batch size: time by a stopwatch over a run, and the share of it with a kernel running."""

    step_ms: float
    gpu_utilization: float


# -- as handed out ----------------------------------------------------------------------------------


def gpu_utilization(trace):
    """The kernels' durations, summed, over the time from the first kernel to the last."""
    kernels = [span for span in trace.spans if span.category == "kernel"]
    if not kernels:
        return None
    busy_us = sum(span.end_us - span.start_us for span in kernels)
    return busy_us / (kernels[-1].end_us - kernels[0].start_us)


def sm_efficiency(trace):
    """The plain mean over the kernels."""
    blocks = [span.args["blocks per SM"] for span in trace.spans if "blocks per SM" in span.args]
    if not blocks:
        return None
    return sum(min(each, 1.0) for each in blocks) / len(blocks)


def achieved_occupancy(trace):
    """The plain mean over the kernels."""
    told = [span.args["est. achieved occupancy %"] for span in trace.spans if "est. achieved occupancy %" in span.args]
    if not told:
        return None
    return sum(told) / len(told) / 100


def top_operators(trace, k):
    """By the operators' time on the host."""
    rows = {}
    for span in trace.spans:
        if span.category == "op":
            row = rows.setdefault(span.name, {"name": span.name, "calls": 0, "device_self_us": 0.0, "device_total_us": 0.0})
            row["calls"] += 1
            row["device_self_us"] += span.end_us - span.start_us
            row["device_total_us"] += span.end_us - span.start_us
    return sorted(rows.values(), key=lambda row: -row["device_self_us"])[:k]


def memory_by_operator(trace):
    """Allocations alone, for every operator of any thread that runs at the time."""
    rows = {}
    for event in trace.events:
        if event["name"] == "[memory]" and event["args"]["Bytes"] > 0:
            for span in trace.spans:
                if span.category == "op" and span.start_us <= event["ts"] <= span.end_us:
                    row = rows.setdefault(span.name, {"size_increase_bytes": 0, "self_size_increase_bytes": 0,
                                                      "allocation_bytes": 0, "self_allocation_bytes": 0})
                    for key in row:
                        row[key] += event["args"]["Bytes"]
    return rows


def source_of(trace, kernel_name):
    """The lines that the host was at while the kernel ran."""
    lines = {}
    for kernel in trace.spans:
        if kernel.category == "kernel" and kernel.name == kernel_name:
            for span in trace.spans:
                line = line_of(span)
                if line and span.start_us <= kernel.start_us < span.end_us:
                    lines[line] = lines.get(line, 0.0) + kernel.end_us - kernel.start_us
    return lines


def choose_batch_size(measure, candidates):
    """The highest utilisation."""
    shares = {}
    for batch in candidates:
        try:
            shares[batch] = measure(batch).gpu_utilization
        except torch.OutOfMemoryError:
            continue
    return max(shares, key=shares.get)


def why_idle(trace):
    """By the kernels' mean duration alone."""
    kernels = [span for span in trace.spans if span.category == "kernel"]
    mean_us = sum(span.end_us - span.start_us for span in kernels) / len(kernels)
    return "many small kernels" if mean_us < 20 else "slow loader"


# -- what is right ----------------------------------------------------------------------------------


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
    """Two shares: of the steps' time in which the host was inside an operator that launched work; and of the card that had
    a block while a kernel ran."""
    start_us, end_us = steps_time(trace)
    calls = [span for span in trace.spans if span.category == "runtime" and "aunch" in span.name]
    operators = [span for span in trace.spans if span.category == "op"]
    launching_us, reached_us, at = 0.0, float("-inf"), 0
    for op in operators:  # outer before inner
        if op.end_us <= reached_us:
            continue
        while at < len(calls) and calls[at].start_us < op.start_us:
            at += 1
        if at < len(calls) and calls[at].start_us < op.end_us:
            launching_us += op.end_us - max(op.start_us, reached_us)
            reached_us = op.end_us
    return launching_us / (end_us - start_us), views.sm_efficiency(trace) / views.gpu_utilization(trace)
