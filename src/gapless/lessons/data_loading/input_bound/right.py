"""Lesson 04: what is right for ``input_bound``."""

from __future__ import annotations

from collections.abc import Iterable

from ....evidence.traces.steps import DEVICE_WORK
from ....evidence.traces.trace import Span, Trace

LOADER = "enumerate(DataLoader)#"
_HOST = ("annotation", "op")  # categories of a block on the host, in traces of any age


def steps_of(trace: Trace) -> list[Span]:
    return [span for span in trace.spans if span.category in _HOST and span.name.startswith("ProfilerStep#")]


def blocks_of(trace: Trace) -> list[Span]:
    """The loader's, on the steps' thread; where there are no steps, on any."""
    steps = steps_of(trace)
    return [span for span in trace.spans if span.category in _HOST and span.name.startswith(LOADER)
            and (not steps or span.thread == steps[0].thread)]


def work_of(trace: Trace) -> list[Span]:
    return [span for span in trace.spans if span.category in DEVICE_WORK]


def steps_time(trace: Trace) -> tuple[float, float]:
    """Begin and end of the steps on the host, in µs; where there are none, of the trace."""
    spans = steps_of(trace) or trace.spans
    return min(span.start_us for span in spans), max(span.end_us for span in spans)


def covered_us(spans: Iterable[Span], start_us: float, end_us: float) -> float:
    """The time between the two moments that at least one of the spans covers."""
    total_us, reached_us = 0.0, start_us
    for span in sorted(spans, key=lambda span: span.start_us):
        total_us += max(0.0, min(span.end_us, end_us) - max(span.start_us, reached_us))
        reached_us = max(reached_us, min(span.end_us, end_us))
    return total_us


def right_input_bound(trace):
    """The share of the steps' time in which the host is inside a loader's block and nothing runs on the GPU."""
    start_us, end_us = steps_time(trace)
    work, blocks = work_of(trace), blocks_of(trace)
    both_us, work_us = covered_us([*work, *blocks], start_us, end_us), covered_us(work, start_us, end_us)
    return (both_us - work_us) / (end_us - start_us)


def idle_share(trace: Trace) -> float:
    """Of the steps' time, that in which nothing runs on the GPU, whatever the host does meanwhile."""
    start, end = steps_time(trace)
    return 1 - covered_us(work_of(trace), start, end) / (end - start)
