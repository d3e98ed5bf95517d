"""From the traces of a run to the audit: what a step takes, what bounds it, what each wait costs, what to do."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from ..evidence.report import StepReport
from ..evidence.traces.kinds import kinds_of
from ..evidence.traces.memory import MemoryByCategory, memory_by_category
from ..evidence.traces.steps import DEVICE_WORK
from ..evidence.traces.trace import Span, Trace
from ..evidence.traces.waits import copy_memory, locate, operator_name
from ..evidence.what_if import WhatIf
from .advice import Advice, advice
from .afterwards import Seldom, seldom
from .host_lines import HostLine, host_lines
from .loaders import Loader, loaders
from .places import Places
from .remarks import Remark, remarks

# From this part of the step's time on, something that can be left out is what bounds it, unless the host or the device
# takes more than twice as much.
BOUNDS_FROM = 0.1
MODEL_MISSES = 0.1  # of a step's time, as compared with what others measured: docs/virtual_gpu.md
_FITS = 0.1  # what playing a trace again may miss of what it took


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
    """The script with one thing switched on (:mod:`gapless.audit.switches`): what a step then takes, give or take
    ``noise_ms``; None where it failed with that ``error``."""

    name: str
    step_ms: float | None
    error: str | None = None
    noise_ms: float = 0.0


@dataclass(frozen=True)
class Audit:
    """What the page shows. Times are per step, in milliseconds. ``step_ms``: of the typical step. ``parts_ms``: what a step
    would be shorter without each of input, waits, communication, host and device, and, on average, without what only some
    steps do; ``bounds``: which of them bounds it, and which may, as times are uncertain by the share ``spread``;
    ``kinds_ms``: what the GPU's kernels of each kind take (:mod:`gapless.evidence.traces.kinds`), what takes most first."""

    script: str
    report: StepReport
    step_ms: float
    parts_ms: dict[str, float]
    bounds: tuple[str, ...]
    spread: float
    waits: tuple[LineOfWaits, ...]
    host: tuple[HostLine, ...]
    remarks: tuple[Remark, ...]
    facts: dict
    seldom: tuple[Seldom, ...] = ()
    memory: MemoryByCategory | None = field(default=None, repr=False)
    trials: tuple[Trial, ...] = ()
    loaders: tuple[Loader, ...] = ()
    kinds_ms: dict[str, float] = field(default_factory=dict)

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
        long_gaps_ns = facts.get("long_gaps_ns", {})
        places = Places([*(span.name for span in trace.spans if span.category == "python"), *long_gaps_ns])
        all_lines = host_lines(trace, played, places, long_gaps_ns)
        watched = facts.get("afterwards", {})
        rare = seldom(watched, step_ms)
        if watched.get("steps"):
            parts_ms["seldom"] = min(watched["longer_ms"], sum(each.costs_ms for each in rare))
        # What only some steps do may be in a recorded one: the typical step is without it.
        at_rare_lines = {each.location for each in rare if each.is_own}
        host = [line for line in all_lines if line.location not in at_rare_lines]
        rare_ms = sum(line.own_ms for line in all_lines if line.location in at_rare_lines)
        step_ms -= rare_ms
        parts_ms["host"] = max(0.0, parts_ms["host"] - rare_ms)
        found_loaders = loaders(trace, played, facts, saved_ms, step_ms)
        spread, own_ms = _spread(facts), sum(line.own_ms for line in host)
        work = [span for span in trace.spans if span.category in DEVICE_WORK]
        kinds = dict(zip(map(id, work), kinds_of(work, trace.spans)))
        return cls(script, report, step_ms, parts_ms, _bounds(parts_ms, step_ms, spread), spread,
                   tuple(_lines(trace, played, places, saved_ms if fits else None)), tuple(host),
                   tuple(remarks(trace, report, step_ms, parts_ms, saved_ms, kinds, found_loaders, own_ms)),
                   facts, tuple(rare), None if memory is None else _memory_view(memory), loaders=tuple(found_loaders),
                   kinds_ms=_kinds_ms(work, kinds, played))

    @property
    def bound(self) -> str:
        """What bounds it, most likely."""
        return self.bounds[0]


def _kinds_ms(work: list[Span], kinds: dict[int, str], played: WhatIf) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for span in work:
        if span.start_us >= played.start_us:
            found[kinds[id(span)]] += (span.end_us - span.start_us) / 1e3 / played.steps
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _memory_view(trace: Trace) -> MemoryByCategory | None:
    try:
        return memory_by_category(trace)
    except ValueError:
        return None  # nothing is taken or given back: a step that is a graph's replay


def _bounds(parts_ms: dict[str, float], step_ms: float, spread: float) -> tuple[str, ...]:
    """What bounds a step; then what would, were one of the parts longer or shorter by that share."""
    found = [_bound(parts_ms, step_ms)]
    for name, ms in parts_ms.items():
        for factor in (1 - spread, 1 + spread):
            found.append(_bound({**parts_ms, name: ms * factor}, step_ms))
    return tuple(dict.fromkeys(found))


def noise_ms(facts: dict) -> float:
    """By how much a step's time is uncertain because equal steps differ on the host."""
    host_ms = facts.get("host_ms") or [0.0]
    return (max(host_ms) - min(host_ms)) / 2


def _spread(facts: dict) -> float:
    """By what share the times are uncertain: what the model misses, or more where the host's of equal steps differ."""
    host_ms = facts.get("host_ms") or [1.0]
    return max(MODEL_MISSES, 2 * noise_ms(facts) / (max(host_ms) + min(host_ms)))


def _bound(parts_ms: dict[str, float], step_ms: float) -> str:
    """What can be left out comes first: a long way of the host or the GPU is often only what follows from it."""
    avoidable = max((name for name in parts_ms if name not in ("host", "device")), key=parts_ms.__getitem__)
    busiest = max(("host", "device"), key=parts_ms.__getitem__)
    on_average_ms = step_ms + parts_ms.get("seldom", 0.0)
    if parts_ms[avoidable] >= max(BOUNDS_FROM * on_average_ms, parts_ms[busiest] / 2):
        return avoidable
    return busiest


def _lines(trace: Trace, played: WhatIf, places: Places, saved_ms) -> list[LineOfWaits]:
    """The waits by line, what costs most first."""
    groups = defaultdict(list)
    copies = {span.args.get("correlation"): span for span in trace.spans if span.category == "memcpy"}
    main = next((span.thread for span in trace.spans if span.name.startswith("ProfilerStep#")), None)
    for wait, location in zip(played.waits, locate(played.waits, trace.spans, main)):
        groups[location, wait.kind, operator_name(wait), wait.call.name].append(wait)
    found = []
    for (location, kind, operator, call), waits in groups.items():
        line = places.text(location)
        found.append(LineOfWaits(
            location, line, places.called_at(location), kind, operator, call, len(waits) / played.steps,
            sum(wait.wait_us for wait in waits) / 1e3 / played.steps,
            None if saved_ms is None else saved_ms(without_waits=waits),
            advice(kind, operator, call, places.path(location) or location, line, _memory(waits[0], copies))))
    return sorted(found, key=lambda each: (-(each.costs_ms or 0.0), -each.wait_ms))


def _memory(wait, copies: dict) -> str:
    """Of a copy that is waited for: the host's memory, pageable or pinned."""
    copy = copies.get(wait.correlation) if wait.correlation is not None else None
    return "unknown" if copy is None else copy_memory(copy.name)
