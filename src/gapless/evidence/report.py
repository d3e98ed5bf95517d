"""From a trace to a report: where the host waited, and how busy the GPU was."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from . import views
from .pictures import perfetto, picture
from .pictures.millisecond import draw_millisecond
from .traces.kinds import readable_name
from .traces.steps import Steps, extent_ms, launches_by_correlation, union_ms, work_in_steps
from .traces.trace import Span, Trace, as_number
from .traces.waits import Wait, copy_direction, copy_memory, find_waits, locate, operator_name

BUS = ("HtoD", "DtoH")  # directions of the copies that go over the bus between host and device

# What TensorBoard's profiler plugin shows first, and what it is called.
_SHARES = (("gpu_utilization", "GPU utilisation"), ("sm_efficiency", "est. SM efficiency"),
           ("achieved_occupancy", "est. achieved occupancy"))


@dataclass(frozen=True)
class Sync:
    """One time that the host waited for the GPU.

    ``kind`` is read-back, copy, stream, device or event; ``op`` the operator that
    waited; ``location`` the source line; ``step`` the index of the profiled step;
    each of these three is None where the trace does not tell. ``start_ms`` counts
    from the first profiled step.
    """

    name: str
    kind: str
    op: str | None
    wait_ms: float
    location: str | None = None
    step: int | None = None
    start_ms: float = 0.0


@dataclass(frozen=True)
class Copy:
    """One copy on the device.

    ``direction`` is HtoD, DtoH, DtoD, PtoP or unknown; ``memory`` tells the host's side
    (pinned, pageable), or device, or unknown; ``blocking`` whether the host waited for it.
    """

    direction: str
    bytes: int
    memory: str
    duration_ms: float
    blocking: bool = False
    step: int | None = None


@dataclass(frozen=True)
class StepReport:
    """What a trace says about a step.

    Times are per step; ``syncs`` and ``copies`` list the whole trace. Where it has
    no profiled steps (``steps == 0``) it counts as one. ``kernels`` is how many
    kernels a step runs, ``launches`` by how many calls of the host: fewer where a call
    launches a graph of them; ``peak_memory_bytes`` is None where memory was not recorded.
    ``uncertainty``: of ``device_busy_ms``, where it is modelled: the share of it that 80 % of measured times are within.
    """

    device_name: str
    simulated: bool = False
    steps: int = 0
    syncs: tuple[Sync, ...] = ()
    host_step_ms: float = 0.0
    device_busy_ms: float = 0.0
    device_step_ms: float = 0.0
    kernels: float = 0.0
    copies: tuple[Copy, ...] = ()
    peak_memory_bytes: int | None = None
    launches: float = 0.0
    uncertainty: float | None = None
    trace: Trace | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_trace(cls, trace: Trace) -> StepReport:
        """Read a report off a trace; an empty trace gives an empty report."""
        spans = trace.spans
        steps = Steps(spans)
        launches = launches_by_correlation(spans)
        waits = find_waits(spans)
        blocking = {wait.correlation for wait in waits} - {None}
        work = work_in_steps(spans, steps, launches)
        averaged = max(len(steps), 1)
        return cls(
            device_name=trace.device_name,
            simulated=trace.simulated,
            steps=len(steps),
            syncs=tuple(_as_syncs(waits, spans, steps)),
            host_step_ms=steps.host_ms(spans),
            device_busy_ms=union_ms(work) / averaged,
            device_step_ms=extent_ms(work) / averaged,
            kernels=sum(span.category == "kernel" for span in work) / averaged,
            launches=_launches(work) / averaged,
            copies=tuple(
                Copy(
                    direction=copy_direction(span.name),
                    bytes=int(as_number(span.args.get("bytes")) or 0),
                    memory=copy_memory(span.name),
                    duration_ms=span.duration_ms,
                    blocking=span.args.get("correlation") in blocking,
                    step=steps.at(launches.get(span.args.get("correlation"), span).start_us),
                )
                for span in spans
                if span.category == "memcpy"
            ),
            peak_memory_bytes=_peak_memory_bytes(trace),
            uncertainty=trace.uncertainty,
            trace=trace,
        )

    @property
    def syncs_in_steps(self) -> tuple[Sync, ...]:
        """The waits within the profiled steps; all of them where there are no steps."""
        return tuple(sync for sync in self.syncs if sync.step is not None or not self.steps)

    @property
    def syncs_per_step(self) -> float:
        """How often a step waits."""
        return len(self.syncs_in_steps) / max(self.steps, 1)

    @property
    def bus_bytes(self) -> float:
        """What a step copies between host and device."""
        return sum(copy.bytes for copy in self.copies if copy.direction in BUS and (copy.step is not None or not self.steps)
                   ) / max(self.steps, 1)

    @property
    def wait_ms(self) -> float:
        """How long the median step waits, in milliseconds: a part of ``host_step_ms``, the median step on the host."""
        waits_ms = dict.fromkeys(range(self.steps), 0.0)
        for sync in self.syncs_in_steps:
            waits_ms[sync.step] = waits_ms.get(sync.step, 0.0) + sync.wait_ms
        return statistics.median(waits_ms.values()) if waits_ms else 0.0

    @property
    def gpu_utilization(self) -> float | None:
        """:func:`gapless.views.gpu_utilization` of the trace; None without one."""
        return None if self.trace is None else views.gpu_utilization(self.trace)

    @property
    def sm_efficiency(self) -> float | None:
        """:func:`gapless.views.sm_efficiency` of the trace; None without one."""
        return None if self.trace is None else views.sm_efficiency(self.trace)

    @property
    def achieved_occupancy(self) -> float | None:
        """:func:`gapless.views.achieved_occupancy` of the trace; None without one."""
        return None if self.trace is None else views.achieved_occupancy(self.trace)

    def kernel_table(self, count: int = 8) -> str:
        """The ``count`` kernels that take the device longest: ms and launches a step, and what they are. Kernels that
        differ only in their types are one row. Copies and memsets are among them. Needs the trace."""
        if self.trace is None:
            raise ValueError("this report has no trace to read; make it with StepReport.from_trace(trace)")
        spans, each = self.trace.spans, max(self.steps, 1)
        times: dict[str, list[float]] = defaultdict(list)
        for span in work_in_steps(spans, Steps(spans), launches_by_correlation(spans)):
            times[readable_name(span.name)].append(span.duration_ms)
        longest = sorted(times.items(), key=lambda item: -sum(item[1]))
        rows = [(_short_ms(sum(ms) / each), f"{len(ms) / each:g}", name[:70]) for name, ms in longest[:count]]
        rest_ms = sum(sum(ms) for _, ms in longest[count:]) / each
        if rest_ms:
            rows.append((_short_ms(rest_ms), f"{sum(len(ms) for _, ms in longest[count:]) / each:g}", "all others"))
        return "\n".join(_columns([("ms a step", "launches", "kernel"), *rows]))

    def to_json(self) -> dict:
        """The report in plain JSON types, without the trace."""
        names = [name for name in self.__dataclass_fields__ if name not in ("trace", "syncs", "copies")]
        return {
            **{name: getattr(self, name) for name in names},
            "syncs_per_step": self.syncs_per_step,
            "wait_ms": self.wait_ms,
            **{name: getattr(self, name) for name, _ in _SHARES},
            "syncs": [asdict(sync) for sync in self.syncs],
            "copies": [asdict(copy) for copy in self.copies],
        }

    def __str__(self) -> str:
        lines = [_heading(self), ""]
        rows = _summary_rows(self)
        lines += [f"  {label:<{max(len(row[0]) for row in rows)}}  {value}" for label, value in rows]
        groups = _groups(self)
        lines += ["", "Waits, the costliest first" if groups else "No waits"]
        if groups:
            lines += _columns([("ms", "times", "kind", "operator", "where", "call"), *groups])
        return "\n".join(lines)

    def _repr_markdown_(self) -> str:
        lines = [f"**{_heading(self)}**", "", "| | |", "|---|---|"]
        lines += [f"| {label.strip()} | {value} |" for label, value in _summary_rows(self)]
        groups = _groups(self)
        if groups:
            lines += ["", "| ms | times | kind | operator | where | call |", "|--:|--:|---|---|---|---|"]
            lines += ["| " + " | ".join(_markdown(cell) for cell in row) + " |" for row in groups]
        else:
            lines += ["", "No waits."]
        return "\n".join(lines)

    def show(self, *, zoom: bool = False):
        """Draw the timeline and return the figure, which a notebook displays with a button that opens the trace in
        Perfetto; without matplotlib, print the report.

        ``zoom``: draw one typical millisecond instead, with single kernels (:func:`.pictures.millisecond.draw_millisecond`).
        Returns None where nothing can be drawn, or there is nothing to zoom into, and prints why.
        """
        if self.trace is not None:
            try:
                figure = draw_millisecond(self) if zoom else picture.draw(self)
            except ImportError:
                pass
            else:
                if figure is None:
                    print("No typical millisecond: a step takes less than 3 ms, or most of the GPU's work is in bars that "
                          "show() tells apart. Call it without zoom.")
                else:
                    figure.controls = perfetto.button(self.trace.to_bytes(compressed=True), _heading(self))
                return figure
        print(self)
        return None


def _as_syncs(waits: list[Wait], spans: Sequence[Span], steps: Steps) -> list[Sync]:
    origin_us = steps.spans[0].start_us if len(steps) else (spans[0].start_us if spans else 0.0)
    main = steps.spans[0].thread if len(steps) else None
    return [
        Sync(
            name=wait.call.name,
            kind=wait.kind,
            op=operator_name(wait),
            wait_ms=wait.wait_us / 1000.0,
            location=location,
            step=steps.at(wait.start_us),
            start_ms=(wait.start_us - origin_us) / 1000.0,
        )
        for wait, location in zip(waits, locate(waits, spans, main))
    ]


def _launches(work: list[Span]) -> int:
    """Calls that launched the kernels: those of a graph share its launch's correlation; what has none was launched
    alone."""
    numbers = [span.args.get("correlation") for span in work if span.category == "kernel"]
    return len(set(numbers) - {None}) + numbers.count(None)


def _peak_memory_bytes(trace: Trace) -> int | None:
    peaks = []
    for event in trace.events:
        if event.get("name") != "[memory]" or not isinstance(args := event.get("args"), dict):
            continue
        total = as_number(args.get("Total Allocated"))
        if as_number(args.get("Device Type")) == 1 and total is not None:
            peaks.append(int(total))
    return max(peaks, default=None)


def _short_ms(ms: float) -> str:
    return f"{ms:.1f}" if ms >= 1 else f"{ms:.2g}"


def _heading(report: StepReport) -> str:
    steps = {0: "no profiled steps", 1: "1 step"}.get(report.steps, f"{report.steps} steps")
    if report.simulated:
        return f"{steps}, simulated {report.device_name} (modelled times, not measured)"
    return f"{steps}, {report.device_name}"


def _summary_rows(report: StepReport) -> list[tuple[str, str]]:
    whole = "step" if report.steps else "trace"
    moved = sum(copy.bytes for copy in report.copies if copy.step is not None or not report.steps)
    count = sum(copy.step is not None or not report.steps for copy in report.copies)
    each = max(report.steps, 1)
    rows = [
        (f"a {whole} on the host", f"{report.host_step_ms:.3f} ms"),
        (
            "  of which waiting",
            f"{report.wait_ms:.3f} ms in {report.syncs_per_step:g} {'wait' if report.syncs_per_step == 1 else 'waits'}",
        ),
        (f"a {whole} on the GPU", f"{report.device_step_ms:.3f} ms"),
        ("  of which busy", f"{report.device_busy_ms:.3f} ms" + give_or_take(report)),
        (f"kernels a {whole}", f"{report.kernels:g}{_by_launches(report)}"),
        (f"copies a {whole}", f"{count / each:g}, {moved / each / 1e6:.3f} MB"),
    ]
    for name, label in _SHARES:
        share = getattr(report, name)
        if share is not None:
            rows.append((label, f"{100 * share:.1f} %"))
    if report.peak_memory_bytes is not None:
        rows.append(("peak GPU memory", f"{report.peak_memory_bytes / 2**30:.3f} GiB"))
    return rows


def give_or_take(report: StepReport) -> str:
    """By how much its time on the GPU is uncertain, with a space before it; empty where that is measured."""
    return "" if report.uncertainty is None else f" ± {100 * report.uncertainty:.0f} %"


def _by_launches(report: StepReport) -> str:
    if not 0 < report.launches < report.kernels:
        return ""
    return f", by {report.launches:g} {'launch' if report.launches == 1 else 'launches'} of the host"


def _groups(report: StepReport) -> list[tuple[str, ...]]:
    """Waits alike in everything but time, summed, the costliest first."""
    groups = defaultdict(list)
    for sync in report.syncs:
        where = sync.location or "unknown line"
        if report.steps and sync.step is None:
            where += " (outside the steps)"
        groups[sync.kind, sync.op or "-", where, sync.name].append(sync.wait_ms)
    ordered = sorted(groups.items(), key=lambda item: -sum(item[1]))
    return [(f"{sum(times):.3f}", str(len(times)), *key) for key, times in ordered]


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  "
        + "  ".join(c.rjust(w) if i < 2 else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths))).rstrip()
        for row in rows
    ]


def _markdown(cell: str) -> str:
    return cell.replace("|", r"\|").replace("_", r"\_").replace("*", r"\*").replace("<", "&lt;")
