"""What the host's time of a step goes into, by the program's lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ..evidence.traces.trace import Trace
from ..evidence.traces.waits import source_line
from ..evidence.what_if import LOADER, ROUNDING_US, WhatIf
from ..vgpu.host.line_sampler import LONG_NS
from .advice import host_advice, launch_advice
from .places import Places

_MOST_LINES = 12
_WORKERS_BATCH = f"{LOADER}_MultiProcessing"  # it is waited for, and not made, here
_NEARLY_ALL = 0.9  # of what operators take
_WORTH = 0.01  # of all that the host does


@dataclass(frozen=True)
class HostLine:
    """One line of the program, milliseconds a step. ``own_ms``: what it takes itself, in Python and in C, measured on this
    machine; ``operators_ms``: operators and launches, modelled; ``launches``: how many. ``what``: what to do, where what
    stands there tells it."""

    location: str
    line: str | None
    called_at: str | None
    own_ms: float
    operators_ms: float
    launches: float
    what: str | None

    @property
    def total_ms(self) -> float:
        """In all, without waits."""
        return self.own_ms + self.operators_ms


def host_lines(trace: Trace, played: WhatIf, places: Places, long_gaps_ns: Mapping[str, int]) -> list[HostLine]:
    """The lines, what takes most first; none where a trace has none. ``long_gaps_ns``: where the program was seen in long
    gaps between operators (:mod:`gapless.vgpu.host.line_sampler`), frame → nanoseconds."""
    own, operators, launches = defaultdict(float), defaultdict(float), defaultdict(int)
    inside = sorted([(wait.call.start_us, wait.wait_us, 0) for wait in played.waits]
                    + [(span.start_us, 0.0, 1) for span in trace.spans if span.category == "runtime"
                       and "correlation" in span.args])
    batches = [span for span in trace.spans if span.name.startswith(_WORKERS_BATCH)]
    reached_us, long_us, place = played.start_us, 0.0, 0
    for span in sorted((each for each in trace.spans if each.category == "python"), key=lambda each: each.start_us):
        if span.start_us < reached_us - ROUNDING_US or span.start_us >= played.end_us:
            continue  # part of another operator, or in no step
        location = source_line(span.name)
        gap_us = span.start_us - reached_us - sum(
            max(0.0, min(batch.end_us, span.start_us) - max(batch.start_us, reached_us)) for batch in batches)
        if gap_us * 1e3 < LONG_NS or not long_gaps_ns:
            own[location] += gap_us
        else:
            long_us += gap_us
        reached_us = span.end_us
        operators[location] += span.end_us - span.start_us
        while place < len(inside) and inside[place][0] < reached_us:
            start_us, wait_us, launched = inside[place]
            place += 1
            if start_us >= span.start_us - ROUNDING_US:
                operators[location] -= wait_us
                launches[location] += launched
    seen_ns = sum(long_gaps_ns.values())
    for frame, ns in long_gaps_ns.items():
        own[source_line(frame)] += long_us * ns / seen_ns
    for location, caller in _callers(places, own, operators).items():
        for times in (own, operators, launches):
            times[caller] += times.pop(location, 0)
    found = []
    for location in own.keys() | operators.keys():
        if location is not None:
            line, a_step = places.text(location), launches[location] / played.steps
            own_ms, operators_ms = (max(0.0, us[location]) / 1e3 / played.steps for us in (own, operators))
            what = host_advice(line or "", places.path(location) or location), launch_advice(line or "", location, a_step)
            found.append(HostLine(location, line, places.called_at(location), own_ms, operators_ms, a_step,
                                  next(filter(None, what[::-1] if operators_ms > own_ms else what), None)))
    all_ms = sum(each.total_ms for each in found)
    found.sort(key=lambda each: (-each.total_ms, each.location))
    return [each for each in found[:_MOST_LINES] if each.total_ms >= _WORTH * all_ms]


def _callers(places: Places, own: Mapping, operators: Mapping) -> dict[str, str]:
    """Lines in libraries → the program's that call them, where those tell more: a trainer's call, from which nearly all
    operators come, does not."""
    callers = {location: places.caller(location) for location in own.keys() | operators.keys()}
    taken = defaultdict(float)
    for location, caller in callers.items():
        taken[caller or location] += operators.get(location, 0.0)
    most = _NEARLY_ALL * sum(taken.values())
    return {location: caller for location, caller in callers.items() if caller is not None and taken[caller] < most}
