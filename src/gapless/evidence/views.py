"""The views of TensorBoard's PyTorch profiler plugin, from any Kineto trace, measured or simulated.

Definitions are those of torch-tb-profiler 0.4.3, and so are the numbers (the tests compare them). Shares are between 0 and
1, times are in µs unless a name says ms. "The steps' time" is the plugin's: from the begin of the first profiled step, or
the end of the work that was still in flight then, to the end of the last step, on the host or of what it launched on the
GPU, whichever is later. Steps at the end that launch nothing, or less than 0.8 of the work of the step before, are left out,
as a profiler may have missed their work. Without profiled steps the operators' time counts as one step.

One thing differs on purpose: work belongs to the operator around its launch in time. The plugin uses "External id", which
Kineto for some years filled with another number; on such files its operators' times are wrong, some of them negative.
"""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .pictures.distributed import distributed_picture, ranks_picture
from .ranks.distributed import distributed_view
from .ranks.gpu_time import gpu_time
from .ranks.run import read_ranks
from .ranks.straggler import straggler
from .traces.memory import memory_by_category
from .traces.steps import DEVICE_WORK
from .traces.trace import Span, Trace, as_number
from .traces.waits import Wait, enclosing, locate
from .traces.windows import host_windows, is_step, step_windows

__all__ = [
    "gpu_utilization", "sm_efficiency", "achieved_occupancy", "utilization_timeline", "Bucket",
    "kernel_view", "KernelRow", "top_operators", "OperatorRow", "memory_by_operator", "MemoryRow", "memory_by_category",
    "source_of", "SourceRow", "kernels_by_line",
    "read_ranks", "distributed_view", "gpu_time", "straggler", "distributed_picture", "ranks_picture",
]


@dataclass(frozen=True)
class KernelRow:
    """All launches of one kernel. ``blocks_per_sm`` and ``occupancy`` (a share) are means weighted by duration; None where
    no launch tells."""

    name: str
    calls: int
    total_us: float
    mean_us: float
    max_us: float
    min_us: float
    blocks_per_sm: float | None
    occupancy: float | None


@dataclass(frozen=True)
class OperatorRow:
    """All calls of one operator. ``total``: with the operators that it called; ``self``: without. The host's self time
    leaves out runtime calls too; the device's is the sum of kernels, copies and memsets launched."""

    name: str
    calls: int
    device_self_us: float
    device_total_us: float
    host_self_us: float
    host_total_us: float


@dataclass(frozen=True)
class MemoryRow:
    """What all calls of one operator did to the GPU's memory. Size increase: allocated minus freed; allocation: allocated
    alone; ``self``: without the operators that it called."""

    name: str
    calls: int
    size_increase_bytes: int
    self_size_increase_bytes: int
    allocation_bytes: int
    self_allocation_bytes: int
    allocations: int
    self_allocations: int


@dataclass(frozen=True)
class SourceRow:
    """A line that launched a kernel: ``folder/file.py:12``, ``cell "NAME", line 4``; None where the trace does not tell."""

    location: str | None
    calls: int
    total_us: float


@dataclass(frozen=True)
class Bucket:
    """A part of the timeline, counted in ms from the first profiled step. ``sm_efficiency`` is None where no kernel tells
    its blocks per SM."""

    start_ms: float
    end_ms: float
    gpu_utilization: float
    sm_efficiency: float | None


# -- the overview -----------------------------------------------------------------------------------


def gpu_utilization(trace: Trace, device: int | None = None) -> float | None:
    """Share of the steps' time with at least one kernel running; kernels that overlap count once, copies do not count.

    ``device``: the number of the GPU; the first that ran a kernel if None. None where the trace has no kernels.
    """
    kernels, window = _kernels(trace, device), _window(trace)
    if not kernels or window is None:
        return None
    return _covered(((span.start_us, span.end_us, 1.0) for span in kernels), *window) / (window[1] - window[0])


def sm_efficiency(trace: Trace, device: int | None = None) -> float | None:
    """Share of the GPU's multiprocessors (SMs) that had a block, over the steps' time: at each moment the sum of the
    blocks per SM of all kernels running, at most 1; idle time counts as 0. None where no kernel tells its own."""
    blocks, window = _blocks(_kernels(trace, device)), _window(trace)
    if not blocks or window is None:
        return None
    return _covered(blocks, *window) / (window[1] - window[0])


def achieved_occupancy(trace: Trace, device: int | None = None) -> float | None:
    """Mean of the kernels' "est. achieved occupancy", weighted by their time within the steps' time; idle time does not
    count. A share (Kineto writes whole per cent). None where no kernel tells its own."""
    window = _window(trace)
    if window is None:
        return None
    weighted = total_us = 0.0
    for span in _kernels(trace, device):
        occupancy = as_number(span.args.get("est. achieved occupancy %"))
        within_us = min(span.end_us, window[1]) - max(span.start_us, window[0])
        if occupancy is not None and occupancy >= 0 and within_us > 0:
            weighted += occupancy * within_us
            total_us += within_us
    return weighted / total_us / 100 if total_us else None


def utilization_timeline(trace: Trace, buckets: int = 100, device: int | None = None) -> tuple[Bucket, ...]:
    """Utilisation and SM efficiency along the profiled steps, in ``buckets`` equal parts; empty where there are no kernels.
    Raises ValueError if ``buckets`` < 1."""
    if buckets < 1:
        raise ValueError(f"buckets is {buckets}: draw at least one")
    kernels, window = _kernels(trace, device), _window(trace)
    if not kernels or window is None:
        return ()
    origin_us = host_windows(trace)[0].start_us
    each_us = (window[1] - origin_us) / buckets
    busy, blocks = [(span.start_us, span.end_us, 1.0) for span in kernels], _blocks(kernels)
    found = []
    for number in range(buckets):
        start_us, end_us = origin_us + number * each_us, origin_us + (number + 1) * each_us
        found.append(Bucket(number * each_us / 1e3, (number + 1) * each_us / 1e3, _covered(busy, start_us, end_us) / each_us,
                            _covered(blocks, start_us, end_us) / each_us if blocks else None))
    return tuple(found)


# -- tables -----------------------------------------------------------------------------------------


def kernel_view(trace: Trace) -> list[KernelRow]:
    """A row for each kernel's name, over the whole trace, the longest in total first."""
    launches: dict[str, list[Span]] = defaultdict(list)
    for span in trace.spans:
        if span.category == "kernel":
            launches[span.name].append(span)
    rows = []
    for name, spans in launches.items():
        times_us = [span.end_us - span.start_us for span in spans]
        occupancy = _weighted(spans, "est. achieved occupancy %")
        rows.append(KernelRow(name, len(spans), sum(times_us), sum(times_us) / len(spans), max(times_us), min(times_us),
                              _weighted(spans, "blocks per SM"), None if occupancy is None else occupancy / 100))
    return sorted(rows, key=lambda row: -row.total_us)


def top_operators(trace: Trace, k: int | None = 10) -> list[OperatorRow]:
    """A row for each operator's name, the longest on the GPU by itself first; ``k`` of them, all if None."""
    operators = _operators(trace)
    calls = [span for span in trace.spans if span.category == "runtime"]
    work_us: dict[object, float] = defaultdict(float)
    for span in trace.spans:
        if span.category in DEVICE_WORK:
            work_us[span.args.get("correlation")] += span.end_us - span.start_us
    own: dict[Span, list[float]] = {op: [0.0, op.end_us - op.start_us] for found in operators.values() for op in found}
    total_us: dict[Span, float] = defaultdict(float)
    for thread, found in operators.items():
        for op, around in enclosing(found, found).items():
            if around:
                own[around[-1]][1] -= op.end_us - op.start_us
        here = [call for call in calls if call.thread == thread]
        for call, around in enclosing(found, here).items():
            device_us = work_us.get(call.args.get("correlation"), 0.0)
            for op in around:
                total_us[op] += device_us
            if around:
                own[around[-1]][0] += device_us
                own[around[-1]][1] -= call.end_us - call.start_us
    rows: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0, 0.0, 0.0])
    for op, (device_us, host_us) in own.items():
        for place, value in enumerate((1, device_us, total_us[op], host_us, op.end_us - op.start_us)):
            rows[op.name][place] += value
    table = [OperatorRow(name, int(row[0]), *row[1:]) for name, row in rows.items()]
    return sorted(table, key=lambda row: (-row.device_self_us, -row.host_self_us))[:k]


def memory_by_operator(trace: Trace, device: int | None = 0) -> list[MemoryRow]:
    """A row for each operator that allocated or freed memory of GPU ``device`` (None: of any), the largest allocation first.

    Needs ``profile_memory=True``; what is freed between operators, as Python drops a tensor, is nobody's.
    """
    operators = _operators(trace)
    sums: dict[str, list[int]] = defaultdict(lambda: [0] * 6)
    for thread, changes in _memory_changes(trace, device).items():
        found = operators.get(thread, [])
        for change, around in enclosing(found, changes).items():
            nbytes = int(change.args["Bytes"])
            amounts = (nbytes, max(nbytes, 0), int(nbytes > 0))
            for op in around:
                for place, amount in enumerate(amounts):
                    sums[op.name][2 * place] += amount
            if around:
                for place, amount in enumerate(amounts):
                    sums[around[-1].name][2 * place + 1] += amount
    calls: dict[str, int] = defaultdict(int)
    for found in operators.values():
        for op in found:
            calls[op.name] += 1
    rows = [MemoryRow(name, calls[name], *row) for name, row in sums.items() if any(row)]
    return sorted(rows, key=lambda row: -row.allocation_bytes)


def source_of(trace: Trace, kernel_name: str) -> list[SourceRow]:
    """The lines that launched the kernel of this name, the longest in total first.

    From the kernel to the runtime call by correlation, to the operators and the Python line around it, or the operator's
    "Call stack": record with ``with_stack=True``. Raises ValueError where no kernel has the name.
    """
    kernels = [span for span in trace.spans if span.category == "kernel"]
    chosen = [span for span in kernels if span.name == kernel_name]
    if not chosen:
        near = difflib.get_close_matches(kernel_name, {span.name for span in kernels}, n=3, cutoff=0.3)
        raise ValueError(f"no kernel of this trace is called {kernel_name!r}"
                         + (f"; near it: {', '.join(near)}" if near else "") + "; gapless.views.kernel_view lists them")
    lines = _launching_lines(trace, [span.args.get("correlation") for span in chosen])
    sums: dict[str | None, list[float]] = defaultdict(lambda: [0, 0.0])
    for span in chosen:
        row = sums[lines.get(span.args.get("correlation"))]
        row[0] += 1
        row[1] += span.end_us - span.start_us
    rows = [SourceRow(location, int(calls), total_us) for location, (calls, total_us) in sums.items()]
    return sorted(rows, key=lambda row: -row.total_us)


def kernels_by_line(trace: Trace) -> dict[str | None, int]:
    """Source line → how many kernels it launched, the backward pass of its operators counted by itself; None: no line is
    known."""
    correlations = [span.args.get("correlation") for span in trace.spans if span.category == "kernel"]
    lines = _launching_lines(trace, correlations)
    return dict(Counter(lines.get(correlation) for correlation in correlations))


# -- how they are found -----------------------------------------------------------------------------


def _launching_lines(trace: Trace, correlations: Iterable[object]) -> dict[object, str | None]:
    """The line of each runtime call that has one of these correlations."""
    wanted, spans, operators = set(correlations) - {None}, trace.spans, _operators(trace)
    calls: dict[tuple, list[Span]] = defaultdict(list)
    for span in spans:
        if span.category == "runtime" and span.args.get("correlation") in wanted:
            calls[span.thread].append(span)
    launches = []
    for thread, found in calls.items():
        around = enclosing(operators.get(thread, []), found)
        launches += [Wait(call, "launch", 0.0, call.start_us, around[call], call.args["correlation"]) for call in found]
    main = next((span.thread for span in spans if is_step(span)), None)
    return dict(zip([launch.correlation for launch in launches], locate(launches, spans, main)))


def _operators(trace: Trace) -> dict[tuple, list[Span]]:
    """The operators of each thread."""
    found: dict[tuple, list[Span]] = defaultdict(list)
    for span in trace.spans:
        if span.category == "op" and not is_step(span) and not span.name.startswith("Optimizer."):
            found[span.thread].append(span)
    return found


def _kernels(trace: Trace, device: int | None) -> list[Span]:
    """The kernels of one GPU."""
    kernels = [span for span in trace.spans if span.category == "kernel"]
    numbers = {_device(span) for span in kernels} - {None}
    if device is None and numbers:
        device = min(numbers)
    return [span for span in kernels if _device(span) == device]


def _device(span: Span) -> int | None:
    number = as_number(span.args.get("device", span.thread[0]))
    return None if number is None else int(number)


def _blocks(kernels: Sequence[Span]) -> list[tuple[float, float, float]]:
    """(start, end, blocks per SM) of the kernels that tell."""
    found = ((span, as_number(span.args.get("blocks per SM"))) for span in kernels)
    return [(span.start_us, span.end_us, blocks) for span, blocks in found if blocks is not None and blocks >= 0]


def _covered(intervals: Iterable[tuple[float, float, float]], start_us: float, end_us: float) -> float:
    """Time from ``start_us`` to ``end_us``, each moment weighted by the sum of the values running, at most 1."""
    changes: dict[float, list[float]] = defaultdict(lambda: [0, 0.0])
    for begin_us, stop_us, value in intervals:
        begin_us, stop_us = max(begin_us, start_us), min(stop_us, end_us)
        if begin_us < stop_us:
            for at_us, sign in ((begin_us, 1), (stop_us, -1)):
                changes[at_us][0] += sign
                changes[at_us][1] += sign * value
    total_us, running, value, before_us = 0.0, 0, 0.0, start_us
    for at_us in sorted(changes):
        total_us += min(value, 1.0) * (at_us - before_us)
        running += changes[at_us][0]
        # What is left of sums of fractions when nothing runs is rounding.
        value = value + changes[at_us][1] if running else 0.0
        before_us = at_us
    return total_us


def _weighted(spans: Sequence[Span], name: str) -> float | None:
    known = [(value, span.end_us - span.start_us) for span in spans
             if (value := as_number(span.args.get(name))) is not None]
    total_us = sum(us for _, us in known)
    if not known:
        return None
    return sum(value * us for value, us in known) / total_us if total_us else sum(value for value, _ in known) / len(known)


def _memory_changes(trace: Trace, device: int | None) -> dict[tuple, list[Span]]:
    """Each change of the GPU's memory as a moment, by thread, in order of time."""
    found: dict[tuple, list[Span]] = defaultdict(list)
    for event in trace.events:
        args = event.get("args")
        if event.get("name") != "[memory]" or not isinstance(args, dict) or as_number(args.get("Device Type")) != 1:
            continue
        time_us, nbytes = as_number(event.get("ts")), as_number(args.get("Bytes"))
        if time_us is None or nbytes is None or device not in (None, as_number(args.get("Device Id", 0))):
            continue
        thread = (str(event.get("pid", "")), str(event.get("tid", "")))
        found[thread].append(Span("memory", "[memory]", time_us, time_us, thread, {"Bytes": nbytes}))
    return {thread: sorted(changes, key=lambda change: change.start_us) for thread, changes in found.items()}


def _window(trace: Trace) -> tuple[float, float] | None:
    """The steps' time; None where the trace has neither steps nor operators, or they take no time."""
    windows = step_windows(trace)
    if not windows or windows[-1].end_us <= windows[0].start_us:
        return None
    return windows[0].start_us, windows[-1].end_us
