"""Lesson 01: the measures of a trace as handed out. They are the usual wrong ways."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ...evidence.trace import Span
from ...evidence.waits import source_line


@dataclass(frozen=True)
class Measured:
    """A training step at some batch size: time by a stopwatch over a run, and the share of it with a kernel running."""

    step_ms: float
    gpu_utilization: float


def line_of(span: Span) -> str | None:
    """``train/model.py:31`` of a Python frame in a trace; None for the frames of PyTorch and of Python itself, and for
    whatever is no Python frame."""
    return source_line(span.name) if span.category == "python" else None


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
