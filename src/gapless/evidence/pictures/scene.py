"""What a picture of a timeline shows: rows of the host and of the GPU's streams, as sets of intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...words import counted
from ..traces.intervals import difference, length, union, within
from ..traces.steps import DEVICE_WORK, Steps, launches_by_correlation, work_in_steps
from ..traces.trace import Span, Trace
from ..traces.windows import is_step

STEPS_SHOWN = 3  # more steps look alike and squeeze each other
_STREAMS_SHOWN = 8
OPERATORS, WAITS, KERNELS, COPIES = "operators", "the host waits", "kernels", "copies"
EARLIER = "launched before these steps"  # of steps not shown, or of before the recording


@dataclass(frozen=True)
class Part:
    """The part of a trace that a picture shows; times in µs of the trace.

    ``host``: operators and runtime calls, of the whole trace; ``work``: the device's, launched by the ``chosen`` steps;
    ``earlier``: the device's that was launched before them.
    """

    steps: Steps
    chosen: list[int]
    origin_us: float
    host_end_us: float
    end_us: float
    host: list[Span]
    work: list[Span]
    earlier: list[Span]


@dataclass(frozen=True)
class Wait:
    """A wait of the host, in ms from the first step shown, and what is written beside it."""

    start_ms: float
    wait_ms: float
    text: str


@dataclass(frozen=True)
class Row:
    """One row: kind → the moments, in ms from the first step shown. No moment is of two kinds."""

    name: str
    kinds: dict[str, np.ndarray]

    @property
    def busy_ms(self) -> float:
        """How long there is anything."""
        return sum(map(length, self.kinds.values()))


@dataclass
class Scene:
    """What one timeline shows; times in milliseconds from the first step shown."""

    end_ms: float
    host: Row
    streams: list[Row] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    step_starts: list[tuple[float, str]] = field(default_factory=list)
    last_step_end_ms: float | None = None
    busy_ms: float = 0.0  # of the device, on any stream
    earlier_ms: float = 0.0  # of the device, for work launched before the steps shown


def part_of(report, chosen=None) -> Part:
    """The part of the report's trace that belongs to the ``chosen`` steps (an index or several; the first three where
    None), or all of it where there are no steps. Raises ValueError for a report without its trace, IndexError for a step
    that is not there."""
    if report.trace is None:
        raise ValueError("this report has no trace to draw; make it with StepReport.from_trace(trace)")
    spans = report.trace.spans
    steps = Steps(spans)
    chosen = _chosen_steps(steps, chosen)
    work = work_in_steps(spans, steps, launches_by_correlation(spans), chosen or None)
    host = [span for span in spans if span.category in ("op", "runtime") and not is_step(span)]
    if chosen:
        origin_us = steps.spans[chosen[0]].start_us
        host_end_us = max(steps.spans[index].end_us for index in chosen)
    else:
        origin_us = min((span.start_us for span in (*host, *work)), default=0.0)
        host_end_us = max((span.end_us for span in host), default=origin_us)
    end_us = max([host_end_us, *(span.end_us for span in work)])
    earlier = _earlier(report.trace, work, origin_us, end_us) if chosen else []
    return Part(steps, chosen, origin_us, host_end_us, max(end_us, origin_us + 1.0), host, work, earlier)


def scene_of(report, chosen=None) -> Scene:
    """What a picture of the report shows. Raises as :func:`part_of`."""
    part = part_of(report, chosen)

    def moments(spans: Sequence[Span], end_us: float = part.end_us) -> np.ndarray:
        return (within(union((span.start_us, span.end_us) for span in spans), part.origin_us, end_us) - part.origin_us) / 1e3

    waits = waits_of(report, part)
    end_ms = (part.end_us - part.origin_us) / 1e3
    waiting = within(union((wait.start_ms, wait.start_ms + wait.wait_ms) for wait in waits), 0.0, end_ms)
    operators = moments([span for span in part.host if span.category == "op"], part.host_end_us)
    scene = Scene(end_ms, Row("host", _apart({WAITS: waiting, OPERATORS: operators})), waits=waits)
    for index in part.chosen:
        step = part.steps.spans[index]
        scene.step_starts.append(((step.start_us - part.origin_us) / 1e3, f"step {index}"))
        scene.last_step_end_ms = (step.end_us - part.origin_us) / 1e3
    known = {id(span) for span in part.earlier}
    for name, members in _streams([*part.work, *part.earlier]).items():
        own = [span for span in members if id(span) not in known]
        scene.streams.append(Row(name, _apart({
            KERNELS: moments([span for span in own if span.category == "kernel"]),
            COPIES: moments([span for span in own if span.category != "kernel"]),
            EARLIER: moments([span for span in members if id(span) in known]),
        })))
    scene.busy_ms = length(moments([*part.work, *part.earlier]))
    scene.earlier_ms = length(moments(part.earlier))
    return scene


def waits_of(report, part: Part) -> list[Wait]:
    """The waits that begin while the host is in the steps shown."""
    spans, steps = report.trace.spans, part.steps.spans
    first_us = steps[0].start_us if steps else (spans[0].start_us if spans else part.origin_us)
    shift_ms = (first_us - part.origin_us) / 1e3
    host_end_ms = (part.host_end_us - part.origin_us) / 1e3
    return [Wait(sync.start_ms + shift_ms, sync.wait_ms, f"{sync.op or sync.name}  {short_ms(sync.wait_ms)}")
            for sync in report.syncs if 0.0 <= sync.start_ms + shift_ms < host_end_ms]


def device_of(report) -> str:
    """The GPU's name, and whether it is simulated."""
    return f"simulated {report.device_name}" if report.simulated else report.device_name


def short_ms(value_ms: float) -> str:
    """A time as a picture writes it."""
    for least_ms, digits in ((100, 0), (10, 1), (1, 2)):
        if value_ms >= least_ms:
            return f"{value_ms:.{digits}f} ms"
    return f"{value_ms:.2g} ms"


def _apart(kinds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The kinds, each without the moments of those before it: waits lie in operators, and streams that share a row may
    overlap."""
    taken, apart = union(()), {}
    for kind, moments in kinds.items():
        apart[kind] = difference(moments, taken)
        taken = union([*taken, *apart[kind]])
    return apart


def _earlier(trace: Trace, work: Sequence[Span], origin_us: float, end_us: float) -> list[Span]:
    """The device's work between the two moments that was launched before the first, in order of time.

    Work whose launch is not in the trace counts if it comes before all other work of its stream, since a stream keeps the
    order of the launches.
    """
    launches = launches_by_correlation(trace.spans)
    shown = {id(span) for span in work}
    found, linked = [], set()
    for span in trace.spans:
        if span.category not in DEVICE_WORK:
            continue
        # Where no launch is known at all, the device's own times are the best there is.
        launch = launches.get(span.args.get("correlation")) if launches else span
        if launch is not None:
            linked.add(span.thread)
        before = launch.start_us < origin_us if launch is not None else span.thread not in linked
        if before and id(span) not in shown and span.end_us > origin_us and span.start_us < end_us:
            found.append(span)
    return found


def _chosen_steps(steps: Steps, chosen) -> list[int]:
    if chosen is None:
        return list(range(min(len(steps), STEPS_SHOWN)))
    indices = sorted({chosen} if isinstance(chosen, int) else set(chosen))
    for index in indices:
        if not 0 <= index < len(steps):
            raise IndexError(f"step {index} is not in this trace, which has {counted(len(steps), 'step')}")
    return indices


def _streams(work: Sequence[Span]) -> dict[str, list[Span]]:
    """The work by stream, in the streams' order; the least used ones share the last row."""
    by_stream: dict[tuple, list[Span]] = {}
    for span in work:
        by_stream.setdefault(span.thread, []).append(span)
    several = len({device for device, _ in by_stream}) > 1
    kept = sorted(by_stream, key=lambda thread: -len(by_stream[thread]))
    kept, rest = kept[: _STREAMS_SHOWN - 1], kept[_STREAMS_SHOWN - 1 :]
    if len(rest) == 1:
        kept, rest = kept + rest, []
    kept.sort(key=lambda thread: (thread[0], len(thread[1]), thread[1]))
    rows = {(f"GPU {d} " if several else "") + f"stream {s}": by_stream[d, s] for d, s in kept}
    if rest:
        rows[f"{len(rest)} more"] = [span for thread in rest for span in by_stream[thread]]
    return rows
