"""The distributed view of TensorBoard's PyTorch profiler plugin: what each rank of a run spent its time on.

Numbers and definitions are those of torch-tb-profiler 0.4.3 (the tests compare them):

- **computing**: kernels other than NCCL's; where there are none (training on the CPU), the host's operators;
- **communication**: NCCL's kernels, and the host's blocks around the calls (``nccl:all_reduce``, ``gloo:…``);
- **overlap**: both at once; **other**: the rest of the step's time, as the plugin counts it (:mod:`..traces.windows`);
- **transfer**: of each collective the shortest time over the ranks; **waiting**: what a rank has beyond it (the plugin says
  "synchronizing"). A collective belongs to the step in whose time the host called it. A host that runs ahead calls those of
  several steps in one step's time; the plugin then divides by the number of steps that have any, we by that of all.

Where the plugin is blind we are not:

- It knows five collectives by name: ``all_reduce``, ``broadcast``, ``reduce``, ``all_gather``, ``reduce_scatter``.
- It finds a call's kernels by "External id", which newer profilers fill with the number of the operator around the call:
  NCCL's kernels then count as computing. ``Trace.write_tensorboard`` writes a trace so that it finds them.
- Kernels of NCCL whose call is not in the trace, as it came before the recording, count as computing there.
- It compares the i-th collective of every rank, whatever its process group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...words import origin
from ..traces.communication import Collective, find_collectives, is_call, is_communication
from ..traces.intervals import intersection, length, union, within
from ..traces.steps import DEVICE_WORK
from ..traces.trace import Span, Trace, TraceError
from ..traces.windows import Window, is_step, step_windows
from .meetings import MeetingError, meet
from .run import Traces, read_ranks

LOADER = ("enumerate(DataLoader)#", "enumerate(DataPipe)#")


@dataclass(frozen=True)
class RankTime:
    """Where a step's time went on one rank, in µs: four parts that add up to it. ``step`` is the step's number as text,
    None for the mean over the steps."""

    rank: int
    step: str | None
    computing_us: float
    overlap_us: float
    communication_us: float
    other_us: float

    @property
    def total_us(self) -> float:
        """The step's time."""
        return self.computing_us + self.overlap_us + self.communication_us + self.other_us


@dataclass(frozen=True)
class RankWaiting:
    """What a rank's communication of a step consists of, in µs. ``step``: as in :class:`RankTime`, "" for what lies in no
    step's time."""

    rank: int
    step: str | None
    transfer_us: float
    waiting_us: float


@dataclass(frozen=True)
class CollectiveRow:
    """All calls of one collective on one rank. ``latency_us``: the host's blocks and the kernels, waiting included, what
    overlaps counted once; ``transfer_us``: without the waiting, None where the ranks' collectives do not match;
    ``total_bytes``: what went in, as far as the trace tells."""

    rank: int
    name: str
    calls: int
    total_bytes: int
    latency_us: float
    transfer_us: float | None

    @property
    def mean_bytes(self) -> float:
        """Bytes a call."""
        return self.total_bytes / self.calls


@dataclass(frozen=True)
class DistributedView:
    """What :func:`distributed_view` finds. ``times`` and ``waiting``: a row a rank, the mean over its steps; ``step_times``
    and ``step_waiting``: a row a rank and step. Where the ranks' collectives do not match, ``problem`` says why, and there
    is no waiting."""

    times: tuple[RankTime, ...]
    step_times: tuple[RankTime, ...]
    waiting: tuple[RankWaiting, ...]
    step_waiting: tuple[RankWaiting, ...]
    collectives: tuple[CollectiveRow, ...]
    problem: str | None
    device_name: str
    simulated: bool

    def __str__(self) -> str:
        place = origin(self.simulated, self.device_name)
        waits = {row.rank: row for row in self.waiting}
        lines = [f"{len(self.times)} ranks, {place}; ms a step",
                 f"{'rank':>4}{'computing':>12}{'overlap':>10}{'communication':>15}{'other':>10}{'step':>10}"
                 f"{'transfer':>12}{'waiting':>10}"]
        for row in self.times:
            wait = waits.get(row.rank)
            lines.append(f"{row.rank:>4}{row.computing_us / 1e3:>12.3f}{row.overlap_us / 1e3:>10.3f}"
                         f"{row.communication_us / 1e3:>15.3f}{row.other_us / 1e3:>10.3f}{row.total_us / 1e3:>10.3f}"
                         + (f"{wait.transfer_us / 1e3:>12.3f}{wait.waiting_us / 1e3:>10.3f}" if wait else
                            f"{'–':>12}{'–':>10}"))
        lines += ["", f"{'rank':>4}  {'collective':<24}{'calls':>7}{'MB':>12}{'MB a call':>12}{'latency ms':>13}"
                      f"{'transfer ms':>13}"]
        for row in self.collectives:
            transfer = "–" if row.transfer_us is None else f"{row.transfer_us / 1e3:.3f}"
            lines.append(f"{row.rank:>4}  {row.name:<24}{row.calls:>7}{row.total_bytes / 1e6:>12.3f}"
                         f"{row.mean_bytes / 1e6:>12.3f}{row.latency_us / 1e3:>13.3f}{transfer:>13}")
        return "\n".join(lines + ([f"\nwaiting is unknown: {self.problem}"] if self.problem else []))


def distributed_view(traces: Traces, *, partial: bool = False) -> DistributedView:
    """Where the ranks' time went, what of their communication was waiting, and a table of their collectives.

    ``traces`` and ``partial``: as :func:`gapless.views.read_ranks`. Raises TraceError as it does, and where a rank has no
    communication or no time.
    """
    ranks = read_ranks(traces, partial=partial)
    windows, collectives = {}, {}
    for rank, trace in ranks.items():
        windows[rank], collectives[rank] = step_windows(trace), find_collectives(trace)
        if not collectives[rank]:
            raise TraceError(f"rank {rank} has no communication: no kernel of NCCL and no block like nccl:all_reduce. "
                             "Record steps in which the ranks communicate, with the CUDA activity")
        if not windows[rank]:
            raise TraceError(f"rank {rank} has neither steps nor operators: record the CPU activity too, and call the "
                             "profiler's step()")
    problem, transfers = None, None
    try:
        transfers = {rank: {} for rank in ranks}
        for meeting in meet(collectives, ranks):
            for rank, each in meeting.of_rank.items():
                transfers[rank][each] = meeting.transfer_ranges(rank)
    except MeetingError as error:
        problem, transfers = str(error), None
    step_times = [row for rank, trace in ranks.items() for row in _step_times(rank, trace, windows[rank], collectives[rank])]
    step_waiting = [] if transfers is None else [
        row for rank in ranks for row in _step_waiting(rank, windows[rank], collectives[rank], transfers[rank])]
    first = next(iter(ranks.values()))
    return DistributedView(
        times=tuple(_means(RankTime, step_times, windows)), step_times=tuple(step_times),
        waiting=tuple(_means(RankWaiting, step_waiting, windows)), step_waiting=tuple(step_waiting),
        collectives=tuple(row for rank in ranks
                          for row in _table(rank, collectives[rank], None if transfers is None else transfers[rank])),
        problem=problem, device_name=first.device_name, simulated=first.simulated)


def rank_activity(trace: Trace, collectives: list[Collective]) -> tuple[np.ndarray, np.ndarray]:
    """The moments in which a rank computes, and those in which it communicates, as sets of intervals in µs."""
    kernels = [span for span in trace.spans if span.category == "kernel" and not is_communication(span)]
    if not kernels and not any(span.category in DEVICE_WORK for span in trace.spans):
        kernels = [span for span in trace.spans if span.category in ("op", "annotation") and not is_step(span)
                   and not is_call(span) and not span.name.startswith(LOADER)]
    return (union((span.start_us, span.end_us) for span in kernels),
            union(interval for each in collectives for interval in each.ranges))


def _step_times(rank: int, trace: Trace, windows: list[Window], collectives: list[Collective]) -> list[RankTime]:
    computing, communication = rank_activity(trace, collectives)
    both = intersection(computing, communication)
    rows = []
    for window in windows:
        span = window.start_us, window.end_us
        compute_us, overlap_us, communication_us = (length(within(each, *span)) for each in (computing, both, communication))
        rows.append(RankTime(rank, window.name, compute_us - overlap_us, overlap_us, communication_us - overlap_us,
                             window.end_us - window.start_us + overlap_us - compute_us - communication_us))
    return rows


def _step_waiting(rank: int, windows: list[Window], collectives: list[Collective], transfers: Mapping) -> list[RankWaiting]:
    all_us, data_us = defaultdict(list), defaultdict(list)
    for each, step in zip(collectives, _steps_of(collectives, windows)):
        if each in transfers:
            all_us[step] += each.ranges
            data_us[step] += transfers[each]
    return [RankWaiting(rank, step, length(union(data_us[step])), length(union(all_us[step])) - length(union(data_us[step])))
            for step in all_us]


def _steps_of(collectives: list[Collective], windows: list[Window]) -> list[str]:
    """The step in whose time each was called, from begin to end; "" where none is."""
    found = []
    for each in collectives:
        call: Span = each.call or each.kernels[0]
        found.append(next((window.name for window in windows
                           if window.start_us <= call.start_us and call.end_us <= window.end_us), ""))
    return found


def _means(kind, rows: list, windows: Mapping[int, list[Window]]) -> list:
    """A row a rank: the mean over its steps."""
    by_rank = defaultdict(list)
    for row in rows:
        by_rank[row.rank].append(row)
    names = [name for name in kind.__dataclass_fields__ if name.endswith("_us")]
    return [kind(rank, None, *(sum(getattr(row, name) for row in listed) / len(windows[rank]) for name in names))
            for rank, listed in by_rank.items()]


def _table(rank: int, collectives: list[Collective], transfers: Mapping | None) -> list[CollectiveRow]:
    by_name: dict[str, list[Collective]] = defaultdict(list)
    for each in collectives:
        by_name[each.name].append(each)
    rows = []
    for name, listed in by_name.items():
        known = transfers is not None and all(each in transfers for each in listed)
        rows.append(CollectiveRow(
            rank, name, len(listed), sum(each.bytes or 0 for each in listed),
            length(union(interval for each in listed for interval in each.ranges)),
            length(union(interval for each in listed for interval in transfers[each])) if known else None))
    return sorted(rows, key=lambda row: -row.latency_us)
