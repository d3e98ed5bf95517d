"""From the traces of a run to the audit: what a step takes, what bounds it, what each wait costs, what to do."""

from __future__ import annotations

import linecache
import re
from collections import defaultdict
from dataclasses import asdict, dataclass, field

from ..evidence.report import StepReport
from ..evidence.traces.memory import MemoryByCategory, memory_by_category
from ..evidence.traces.trace import Trace
from ..evidence.traces.waits import copy_memory, locate, operator_name, source_line
from ..evidence.what_if import WhatIf
from ..vgpu.process.location import CALLED_AT
from .advice import Advice, advice
from .remarks import Remark, remarks

# From this part of the step's time on, something that can be left out is what bounds it, unless the host or the device
# takes more than twice as much.
BOUNDS_FROM = 0.1
_FITS = 0.1  # what playing a trace again may miss of what it took
_FRAME = re.compile(r"(.+)\((\d+)\): (.*)")


@dataclass(frozen=True)
class LineOfWaits:
    """All waits at one line of one kind. ``times`` and ``wait_ms`` are per step; ``costs_ms`` is what a step would be
    shorter without them, None where the trace cannot be played again. ``called_at``: the program's line, of a wait in a
    library."""

    location: str | None
    line: str | None
    called_at: str | None
    kind: str
    operator: str | None
    call: str
    times: float
    wait_ms: float
    costs_ms: float | None
    advice: Advice


@dataclass(frozen=True)
class Trial:
    """The script with one thing switched on (:mod:`gapless.audit.switches`): what a step then takes, None where it failed
    with that ``error``."""

    name: str
    step_ms: float | None
    error: str | None = None


@dataclass(frozen=True)
class Audit:
    """What the page shows. Times are per step, in milliseconds. ``parts_ms``: what a step would be shorter without each of
    input, waits, communication, host and device; ``bound``: which of them bounds it."""

    script: str
    report: StepReport
    step_ms: float
    parts_ms: dict[str, float]
    bound: str
    waits: tuple[LineOfWaits, ...]
    remarks: tuple[Remark, ...]
    facts: dict
    memory: MemoryByCategory | None = field(default=None, repr=False)
    trials: tuple[Trial, ...] = ()

    @classmethod
    def of(cls, script: str, trace: Trace, facts: dict, memory: Trace | None = None) -> Audit:
        """Read a run's traces. ``facts`` are those of :class:`gapless.audit.session.Session`."""
        report, played = StepReport.from_trace(trace), WhatIf(trace)
        steps = played.steps
        fits = abs(played.played_ms - played.actual_ms) <= _FITS * played.actual_ms
        step_ms = facts.get("step_ms") or played.actual_ms / steps
        # The trace may be slower than the program (a real profiler takes time): shares are the trace's.
        scale = step_ms / (played.played_ms / steps) / steps

        def saved_ms(**left_out) -> float:
            return max(0.0, played.played_ms - played.ms(**left_out)) * scale

        parts_ms = {"input": saved_ms(without={"input"}), "waits": saved_ms(without_waits=None),
                    "communication": saved_ms(without_communication=True),
                    "host": saved_ms(without={"host", "optimizer", "allocator"}), "device": saved_ms(without_device=True)}
        return cls(script, report, step_ms, parts_ms, _bound(parts_ms, step_ms),
                   tuple(_lines(trace, played, saved_ms if fits else None)),
                   tuple(remarks(trace, report, step_ms, parts_ms, saved_ms, facts)), facts,
                   None if memory is None else _memory_view(memory))

    def to_json(self) -> dict:
        """All of it but the traces, in plain JSON types."""
        memory = self.memory
        return {
            "script": self.script, "device": self.report.device_name, "simulated": self.report.simulated,
            "torch": self.facts.get("torch"), "steps": self.report.steps, "warm_up": self.facts.get("warm_up"),
            "a_step_ends_with": self.facts.get("kind"), "step_ms": self.step_ms, "bound": self.bound,
            "saved_without_ms": self.parts_ms, "device_busy_ms": self.report.device_busy_ms,
            "waits_per_step": self.report.syncs_per_step, "wait_ms": self.report.wait_ms,
            "kernels_per_step": self.report.kernels, "bus_bytes_per_step": self.report.bus_bytes,
            "waits": [asdict(each) for each in self.waits], "remarks": [asdict(each) for each in self.remarks],
            "trials": [asdict(each) for each in self.trials],
            "memory": None if memory is None else {
                "peak_bytes": memory.peak_bytes,
                "at_peak_bytes": {row.category: row.at_peak_bytes for row in memory.rows}},
        }


def _memory_view(trace: Trace) -> MemoryByCategory | None:
    try:
        return memory_by_category(trace)
    except ValueError:
        return None  # nothing is taken or given back: a step that is a graph's replay


def _bound(parts_ms: dict[str, float], step_ms: float) -> str:
    """What can be left out comes first: a long way of the host or the GPU is often only what follows from it."""
    avoidable = max(("input", "waits", "communication"), key=parts_ms.__getitem__)
    busiest = max(("host", "device"), key=parts_ms.__getitem__)
    if parts_ms[avoidable] >= max(BOUNDS_FROM * step_ms, parts_ms[busiest] / 2):
        return avoidable
    return busiest


def _lines(trace: Trace, played: WhatIf, saved_ms) -> list[LineOfWaits]:
    """The waits by line, what costs most first."""
    paths, callers = _paths(trace)
    groups = defaultdict(list)
    copies = {span.args.get("correlation"): span for span in trace.spans if span.category == "memcpy"}
    main = next((span.thread for span in trace.spans if span.name.startswith("ProfilerStep#")), None)
    for wait, location in zip(played.waits, locate(played.waits, trace.spans, main)):
        groups[location, wait.kind, operator_name(wait), wait.call.name].append(wait)
    found = []
    for (location, kind, operator, call), waits in groups.items():
        line = _text(paths.get(location), location)
        found.append(LineOfWaits(
            location, line, callers.get(location), kind, operator, call, len(waits) / played.steps,
            sum(wait.wait_us for wait in waits) / 1e3 / played.steps,
            None if saved_ms is None else saved_ms(without_waits=waits),
            advice(kind, operator, call, paths.get(location, location), line, _memory(waits[0], copies))))
    return sorted(found, key=lambda each: (-(each.costs_ms or 0.0), -each.wait_ms))


def _paths(trace: Trace) -> tuple[dict[str, str], dict[str, str]]:
    """Location as in a report → the file's path as the trace has it; → the program's line that called it, in a library."""
    found, callers = {}, {}
    for span in trace.spans:
        if span.category == "python" and (match := _FRAME.match(span.name)):
            location = source_line(span.name)
            if location is not None:
                found[location] = match[1]
                _, called, caller = match[3].partition(CALLED_AT)
                if called:
                    callers.setdefault(location, caller)
    return found, callers


def _memory(wait, copies: dict) -> str:
    """Of a copy that is waited for: the host's memory, pageable or pinned."""
    copy = copies.get(wait.correlation) if wait.correlation is not None else None
    return "unknown" if copy is None else copy_memory(copy.name)


def _text(path: str | None, location: str | None) -> str | None:
    number = re.search(r":(\d+)", location or "")
    if path is None or number is None:
        return None
    return linecache.getline(path, int(number[1])).strip() or None
