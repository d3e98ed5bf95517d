"""Lesson 01: the measures of a trace, right (:mod:`gapless.evidence.views`)."""

from __future__ import annotations

from ...evidence.traces.trace import Span, Trace

WORK = ("kernel", "memcpy", "memset")


def steps_of(trace: Trace) -> list[Span]:
    return [span for span in trace.spans if span.category == "annotation" and span.name.startswith("ProfilerStep#")]


def steps_time(trace: Trace) -> tuple[float, float]:
    """Begin and end of the steps' time, in µs, where nothing is in flight before the first step."""
    steps = steps_of(trace)
    work = [span.end_us for span in trace.spans if span.category in WORK]
    return steps[0].start_us, max([steps[-1].end_us, *work])
