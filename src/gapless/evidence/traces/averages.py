"""A trace as PyTorch's ``EventList``, for its own tables: ``event_list([trace]).key_averages().table(...)``."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from torch.autograd import DeviceType
from torch.autograd.profiler_util import EventList, FunctionEvent

from .trace import Trace, as_number

_HOST = ("op", "annotation", "runtime")
_DEVICE = ("kernel", "memcpy", "memset")


def event_list(traces: Sequence[Trace], *, profile_memory: bool = False) -> EventList:
    """The operators, calls and blocks of ``traces`` and the GPU's work, with times in µs, as ``torch.profiler`` gives them.

    An operator has the work that it launched itself; one that called others has theirs through them.
    """
    events = [event for trace in traces for event in _events(trace)]
    found = EventList(events, use_device="cuda", profile_memory=profile_memory)
    found._build_tree()
    return found


def _events(trace: Trace) -> list[FunctionEvent]:
    host, device, by_number = [], [], {}
    memory = _Memory(trace)
    for span in trace.spans:
        if span.category in _HOST:
            event = _function_event(len(host), span, memory)
            host.append(event)
            if span.category == "op":
                by_number[span.args.get("External id")] = event
    for span in trace.spans:
        if span.category in _DEVICE:
            device.append(FunctionEvent(
                id=len(host) + len(device), name=span.name, trace_name=span.name, thread=span.args.get("stream", 0),
                start_us=span.start_us, end_us=span.end_us, device_type=DeviceType.CUDA, use_device="cuda", stack=[],
                input_shapes=[]))
            owner = by_number.get(span.args.get("External id"))
            if owner is not None:
                owner.append_kernel(span.name, 0, span.end_us - span.start_us)
    return host + device


def _function_event(number: int, span, memory: _Memory) -> FunctionEvent:
    stack = span.args.get("Call stack")
    step = span.name.startswith("ProfilerStep#")
    return FunctionEvent(
        # All steps are one row.
        id=number, name="ProfilerStep*" if step else span.name, trace_name=span.name, thread=1, start_us=span.start_us,
        end_us=span.end_us, input_shapes=span.args.get("Input Dims", []), stack=[stack] if stack else [],
        use_device="cuda", is_user_annotation=span.category == "annotation",
        # A call ends with its operator, whose results are made a moment before: they are the operator's.
        device_memory_usage=0 if span.category == "runtime" else memory.change(span))


class _Memory:
    """How much the device's memory changed between two times."""

    def __init__(self, trace: Trace):
        changes = sorted((as_number(event.get("ts")), as_number(event["args"].get("Bytes")) or 0) for event in trace.events
                         if event.get("name") == "[memory]" and event.get("args", {}).get("Device Type") == 1)
        self.times_us = [time_us for time_us, _ in changes]
        self.sums = [0, *accumulate(int(nbytes) for _, nbytes in changes)]

    def change(self, span) -> int:
        return self.sums[bisect_left(self.times_us, span.end_us)] - self.sums[bisect_left(self.times_us, span.start_us)]
