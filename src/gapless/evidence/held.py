"""Which lines of a program had made what the GPU's memory held at its peak."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict

from .traces.trace import Span, Trace, as_number
from .traces.waits import source_line


def held_at_peak(trace: Trace) -> list[tuple[str | None, int]]:
    """(line, bytes) of what was there when most was taken of what the trace has seen allocated, the most first. None stands
    for what no line of a program is known of: on a real GPU the backward pass. Empty where memory was not recorded."""
    changes = _changes(trace)
    frames = _frames(trace)
    held: dict[object, tuple[str | None, int]] = {}  # address → the line that made what is there, bytes
    total = most = 0
    peak: list[tuple[str | None, int]] = []
    growing = False  # since the last copy of what is held
    for time_us, thread, address, nbytes in changes:
        if nbytes > 0:
            held[address] = _line_at(frames, thread, time_us), nbytes
            total += nbytes
            growing = growing or total > most
            most = max(most, total)
        elif address in held:
            if growing:
                peak, growing = list(held.values()), False
            total -= held.pop(address)[1]
    if growing:
        peak = list(held.values())
    sums: dict[str | None, int] = defaultdict(int)
    for line, nbytes in peak:
        sums[line] += nbytes
    return sorted(sums.items(), key=lambda item: -item[1])


def _changes(trace: Trace) -> list[tuple[float, tuple, object, int]]:
    """(time in µs, thread, address, bytes) of each change of a GPU's memory, in order of time."""
    found = []
    for event in trace.events:
        args = event.get("args")
        if event.get("name") != "[memory]" or not isinstance(args, dict) or as_number(args.get("Device Type")) != 1:
            continue
        time_us, nbytes = as_number(event.get("ts")), as_number(args.get("Bytes"))
        if time_us is not None and nbytes:
            thread = (str(event.get("pid", "")), str(event.get("tid", "")))
            found.append((time_us, thread, (args.get("Device Id"), args.get("Addr")), int(nbytes)))
    return sorted(found, key=lambda change: change[0])  # stable: of one moment as they were written


def _frames(trace: Trace) -> dict[tuple, tuple[list[float], list[Span]]]:
    """Thread → the spans that name a line of the program, by their start."""
    found: dict[tuple, tuple[list[float], list[Span]]] = defaultdict(lambda: ([], []))
    for span in trace.spans:
        if span.category == "python" and source_line(span.name):
            starts, spans = found[span.thread]
            starts.append(span.start_us)
            spans.append(span)
    return found


_DEEPEST = 64  # spans that begin before a moment, and are looked at for one that has not ended by then


def _line_at(frames: dict, thread: tuple, time_us: float) -> str | None:
    starts, spans = frames.get(thread, ([], []))
    place = bisect_right(starts, time_us)
    for span in reversed(spans[max(0, place - _DEEPEST):place]):
        if span.end_us >= time_us:
            return source_line(span.name)
    return None
