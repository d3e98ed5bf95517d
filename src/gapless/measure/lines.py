"""Which line of the program each operator ran at, on a real device: the profiler's own stacks give functions, not lines.

The interpreter says when a line of the program begins (``sys.monitoring``; before Python 3.12 ``sys.settrace``), and the
profiler when an operator ran. PyTorch sees nothing of it: a mode would be in the way of the program's own modes, and make
compiled functions be compiled again.
"""

# mypy: disable-error-code="attr-defined"
# Another Python has what is asked for here.
from __future__ import annotations

import sys
import threading
import time
from bisect import bisect_right
from collections import defaultdict

from torch.profiler import record_function

from ..evidence.traces.waits import node_number
from ..vgpu.host.python_work import free_tool
from ..vgpu.process.location import is_user_file, line_of

_MARK = "gapless clock"
_MARKS = 5  # at each end: how far the two clocks are apart is known as well as the best of them tells
_DISPATCH_US = 3.0  # an operator's start is looked up so much later, since the clocks differ by less
_CALLS = ("cpu_op", "cuda_runtime", "cuda_driver")


class LineRecorder:
    """Notes lines from :meth:`start` to :meth:`stop`, or as a context, inside a running profile; then they are
    :meth:`added_to` its events."""

    def __init__(self):
        self._notes: list[tuple[int, int, str | None]] = []  # nanoseconds, thread, the line from then on
        self._marks: list[tuple[int, int]] = []
        self._thread = 0
        self._watch = _Monitoring(self._note) if hasattr(sys, "monitoring") else _Tracing(self._note)

    def start(self) -> None:
        self._thread = threading.get_native_id()
        self._mark()
        frame = sys._getframe(1)
        self._note(frame)
        self._watch.start(frame)

    def stop(self) -> None:
        self._watch.stop()
        self._note(None)
        self._mark()

    __enter__ = start

    def __exit__(self, *raised) -> None:
        self.stop()

    def _note(self, frame) -> None:
        self._notes.append((time.perf_counter_ns(), threading.get_native_id(), line_of(frame)))

    def _mark(self) -> None:
        for _ in range(_MARKS):
            before = time.perf_counter_ns()
            with record_function(_MARK):
                after = time.perf_counter_ns()
            self._marks.append((before, after))

    def added_to(self, events: list[dict]) -> list[dict]:
        """The profile's ``events``, and a ``python_function`` event around each outermost operator, and each call of CUDA
        that is in none. A thread without lines, such as the backward pass's, has those of the recorder's thread.
        Operators of the backward pass have none where their forward operator is in the profile: its line is theirs."""
        marks = sorted(event["ts"] for event in events
                       if event.get("name") == _MARK and event.get("cat") == "user_annotation")
        events = [event for event in events if event.get("name") != _MARK]
        if len(marks) != len(self._marks):
            return events  # the profile did not run all the time
        apart = [(ts - after / 1e3, ts - before / 1e3) for ts, (before, after) in zip(marks, self._marks)]
        offset_us = (max(low for low, _ in apart) + min(high for _, high in apart)) / 2
        lines: dict[object, tuple[list[float], list[str | None]]] = defaultdict(lambda: ([], []))
        for ns, thread, line in self._notes:
            starts, names = lines[thread]
            starts.append(ns / 1e3 + offset_us)
            names.append(line)
        found, forward = [], {node_number(event.get("args") or {}, of_backward=False) for event in events} - {None}
        for event in _outermost(events):
            if event["tid"] not in lines and node_number(event.get("args") or {}, of_backward=True) in forward:
                continue
            starts, names = lines[event["tid"] if event["tid"] in lines else self._thread]
            place = bisect_right(starts, event["ts"] + min(event["dur"] / 2, _DISPATCH_US)) - 1
            if place >= 0 and names[place] is not None:
                found.append({"ph": "X", "cat": "python_function", "name": names[place], "pid": event["pid"],
                              "tid": event["tid"], "ts": event["ts"], "dur": event["dur"], "args": {}})
        return events + found


def _outermost(events: list[dict]) -> list[dict]:
    """Of the operators and calls of each thread those that are in no other."""
    calls = [event for event in events if event.get("cat") in _CALLS and event.get("ph") == "X"]
    found, ends = [], defaultdict(lambda: float("-inf"))
    for event in sorted(calls, key=lambda event: (event["ts"], -event["dur"])):
        if event["ts"] >= ends[event["tid"]]:
            ends[event["tid"]] = event["ts"] + event["dur"]
            found.append(event)
    return found


class _Monitoring:
    """Calls ``note(frame)`` where a line begins, and where a function returns to its caller."""

    def __init__(self, note):
        self._note, self._tool, self._codes = note, None, set()

    def start(self, frame) -> None:
        monitoring = sys.monitoring
        self._tool = free_tool()
        if self._tool is None:
            return  # others have them all: there are no lines then
        events = monitoring.events
        monitoring.use_tool_id(self._tool, "gapless lines")
        for event, callback in ((events.PY_START, self._begun), (events.PY_RESUME, self._begun), (events.LINE, self._line),
                                (events.PY_RETURN, self._left), (events.PY_YIELD, self._left)):
            monitoring.register_callback(self._tool, event, callback)
        while frame is not None:
            self._begun(frame.f_code, 0)
            frame = frame.f_back
        monitoring.restart_events()  # else what was looked at in an earlier profile is passed over
        monitoring.set_events(self._tool, events.PY_START | events.PY_RESUME)

    def stop(self) -> None:
        if self._tool is None:
            return
        monitoring, tool, self._tool = sys.monitoring, self._tool, None
        monitoring.set_events(tool, 0)
        for code in self._codes:
            monitoring.set_local_events(tool, code, 0)
        for event in ("PY_START", "PY_RESUME", "LINE", "PY_RETURN", "PY_YIELD"):
            monitoring.register_callback(tool, getattr(monitoring.events, event), None)
        monitoring.free_tool_id(tool)

    def _begun(self, code, offset):
        if self._tool is not None and code not in self._codes and is_user_file(code.co_filename):
            self._codes.add(code)
            events = sys.monitoring.events
            sys.monitoring.set_local_events(self._tool, code, events.LINE | events.PY_RETURN | events.PY_YIELD)
        return sys.monitoring.DISABLE

    def _line(self, code, line) -> None:
        self._note(sys._getframe(1))

    def _left(self, code, offset, value) -> None:
        self._note(sys._getframe(1).f_back)


class _Tracing:
    """The same before Python 3.12; another's trace function, a debugger's, stands aside meanwhile."""

    def __init__(self, note):
        self._note, self._before, self._frames = note, None, []

    def start(self, frame) -> None:
        self._before = sys.gettrace()
        while frame is not None:
            if is_user_file(frame.f_code.co_filename):
                self._frames.append((frame, frame.f_trace))
                frame.f_trace = self._in_frame
            frame = frame.f_back
        sys.settrace(self._called)

    def stop(self) -> None:
        sys.settrace(self._before)
        for frame, before in self._frames:
            frame.f_trace = before
        self._frames.clear()

    def _called(self, frame, event, argument):
        return self._in_frame if is_user_file(frame.f_code.co_filename) else None

    def _in_frame(self, frame, event, argument):
        if event == "line":
            self._note(frame)
        elif event == "return":
            self._note(frame.f_back)
        return self._in_frame
