"""The time that each profiled step of a trace takes, host and GPU together: as TensorBoard's profiler plugin counts it.

A step's time begins at its begin on the host or, if that is later, at the end of the step before; it ends when the host has
left it and the GPU has done what it launched. So the steps' times follow each other, and a step's work lies in its own
(torch-tb-profiler 0.4.3, ``StepParser.update_device_steps``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass

from .steps import DEVICE_WORK
from .trace import Span, Trace

_ENOUGH_WORK = 0.8
_ROUNDING_US = 1e-3  # a start and a duration, added up, may miss the end they were made from
STEP = "ProfilerStep#"


@dataclass(frozen=True)
class Window:
    """The time of one step; ``name`` is its number as text, "0" where nothing was marked as a step."""

    name: str
    start_us: float
    end_us: float


def is_step(span: Span) -> bool:
    """Whether the span is a profiled step on the host."""
    return span.category in ("annotation", "op") and span.name.startswith(STEP)


def host_windows(trace: Trace) -> list[Window]:
    """Begin and end of each profiled step on the host; without steps, of the operators; none without these."""
    steps = sorted({(span.start_us, span.end_us, span.name) for span in trace.spans if is_step(span)})
    if steps:
        return [Window(name.removeprefix(STEP), start_us, end_us) for start_us, end_us, name in steps]
    operators = [span for span in trace.spans if span.category == "op"]
    if not operators:
        return []
    return [Window("0", min(span.start_us for span in operators), max(span.end_us for span in operators))]


def step_windows(trace: Trace) -> list[Window]:
    """The time of each step. Steps at the end that launch nothing, or less than 0.8 of the work of the step before, are left
    out, as a profiler may have missed their work. Empty where the trace has neither steps nor operators."""
    steps = host_windows(trace)
    if not steps:
        return []
    launched = _launched(trace, steps)
    if not any(launched):
        return steps
    before_us = steps[0].start_us
    if launched[0]:
        inside = {id(span) for spans in launched for span in spans}
        first_us = min(span.start_us for span in launched[0])
        before_us = max([before_us, *(span.end_us for span in trace.spans if span.category in DEVICE_WORK
                                      and id(span) not in inside and span.end_us < first_us)])
    keep = max(index for index, spans in enumerate(launched) if spans) + 1
    if keep > 1 and len(launched[keep - 2]) * _ENOUGH_WORK > len(launched[keep - 1]):
        keep -= 1
    windows = []
    for step, spans in zip(steps[:keep], launched):
        start_us = max(before_us, step.start_us)
        before_us = max([start_us, step.end_us, *(span.end_us for span in spans)])
        windows.append(Window(step.name, start_us, before_us))
    return windows


def _launched(trace: Trace, steps: list[Window]) -> list[list[Span]]:
    """What each step launched on the GPU."""
    work: dict[object, list[Span]] = defaultdict(list)
    for span in trace.spans:
        if span.category in DEVICE_WORK:
            work[span.args.get("correlation")].append(span)
    launched: list[list[Span]] = [[] for _ in steps]
    starts_us = [step.start_us for step in steps]
    for call in trace.spans:
        if call.category == "runtime" and call.args.get("correlation") in work:
            index = bisect_left(starts_us, call.start_us + _ROUNDING_US) - 1
            if index >= 0 and call.end_us <= steps[index].end_us + _ROUNDING_US:
                launched[index] += work[call.args["correlation"]]
    return launched
