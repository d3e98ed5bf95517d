"""Which rank of a run sets the pace, and why: its compute, its input, its host, or the network.

The ranks of a step end together, as its collectives do. A rank that is done early shows *exposed* communication: NCCL's
kernel runs, and waits, while the GPU computes nothing. So the rank with the least of it is the one that the others wait for,
and what the others have more is what it costs. What the late rank spent its time on instead is the cause: kernels (compute),
a GPU without work while the host fetched a batch (input) or did anything else (host), transfers of its own (network). A
fetch that takes the other ranks' hosts as long is no cause: they are ahead of their GPUs, and the late one is not. Then it
is the host, which waits for its GPU where the others do not, or works more.

Where a rank is late in most steps, but not the same, none of them is the straggler: their work is uneven. Where no rank is
late, and yet communication is exposed, the network sets the pace; a rank is to blame where those process groups are slow
that it is in, and no others. How many kernels a rank runs, how long its loader takes, and how long it waits in NCCL tell
nothing by themselves: what overlaps with computing costs nothing, and who waits longest is not late.

Times are medians over the steps, without the first where there are three or more: warm-up is nobody's pace.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass

from ..traces.communication import find_collectives
from ..traces.intervals import difference, length, union, within
from ..traces.steps import DEVICE_WORK
from ..traces.trace import Trace, TraceError
from ..traces.waits import find_waits, locate, operator_name
from ..traces.windows import step_windows
from .distributed import LOADER, rank_activity
from .meetings import Meeting, meet
from .run import Traces, read_ranks

CAUSES = ("compute", "input", "host", "network")
# Shares of a step: less than the first is nobody's pace; the network sets it where more than the second is exposed.
LATE, EXPOSED = 0.05, 0.2
_SHOWN = 8  # ranks in a sentence
_SLOWER = 1.3  # a process group is slow whose data takes so many times what the same takes in the fastest


@dataclass(frozen=True)
class RankPace:
    """One rank's step, in µs, or the median over its steps: ``computing`` (kernels other than NCCL's), ``input`` (the GPU
    idle while the host fetches a batch), ``host`` (idle otherwise), ``exposed`` (communication while nothing computes),
    ``transfer`` (its collectives without waiting, hidden or not), and ``fetching`` (the host fetches a batch, whatever its
    GPU does)."""

    rank: int
    step_us: float
    computing_us: float
    input_us: float
    host_us: float
    exposed_us: float
    transfer_us: float
    fetching_us: float


@dataclass(frozen=True)
class StepPace:
    """Who set the pace of one step: ``rank`` and ``cause`` as in :class:`Straggler`, of this step alone; ``late_us``: what
    the others waited."""

    step: str
    rank: int | None
    cause: str | None
    late_us: float


@dataclass(frozen=True)
class Straggler:
    """Who sets the pace. ``rank``: None where no single rank does; ``cause``: one of CAUSES, None where the ranks are even;
    ``late_us``: what the others waited a step; ``ranks``: what each rank's steps are made of; ``steps``: those that count,
    one by one; ``waits``: where the late rank's host waits for its GPU more often than most others', the longest first."""

    rank: int | None
    cause: str | None
    late_us: float
    ranks: tuple[RankPace, ...]
    steps: tuple[StepPace, ...]
    waits: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """The share of a step that the others waited."""
        return self.late_us / statistics.median(pace.step_us for pace in self.ranks)

    def __str__(self) -> str:
        rows = [f"{'rank':>4}{'step ms':>11}{'computing':>12}{'input':>10}{'host':>10}{'exposed':>10}{'transfer':>11}"]
        rows += [f"{pace.rank:>4}{pace.step_us / 1e3:>11.3f}{pace.computing_us / 1e3:>12.3f}{pace.input_us / 1e3:>10.3f}"
                 f"{pace.host_us / 1e3:>10.3f}{pace.exposed_us / 1e3:>10.3f}{pace.transfer_us / 1e3:>11.3f}"
                 for pace in self.ranks]
        return "\n".join([self.reason, *rows])

    @property
    def reason(self) -> str:
        """The finding in a sentence."""
        if self.cause is None:
            return "The ranks are even: none makes the others wait."
        exposed_us = statistics.median(pace.exposed_us for pace in self.ranks)
        step_us = statistics.median(pace.step_us for pace in self.ranks)
        if self.cause == "network":
            whose = "every rank's links alike" if self.rank is None else f"the links of rank {self.rank}"
            return (f"The network sets the pace ({whose}): {exposed_us / 1e3:.2f} ms of a step of {step_us / 1e3:.2f} ms "
                    "are communication that nothing hides.")
        if self.rank is None:
            late = [step for step in self.steps if step.rank is not None]
            who = ", ".join(str(step.rank) for step in late[:_SHOWN]) + (", …" if len(late) > _SHOWN else "")
            return (f"No rank by itself sets the pace: the ranks' {self.cause} is uneven. In {len(late)} of "
                    f"{len(self.steps)} steps one is late, in turn rank {who}; the others wait {self.late_us / 1e3:.2f} ms "
                    f"of {step_us / 1e3:.2f} ms a step for it.")
        others = [pace for pace in self.ranks if pace.rank != self.rank]
        mine = next(pace for pace in self.ranks if pace.rank == self.rank)
        name, words = {"compute": ("computing_us", "its kernels take"), "input": ("input_us", "its GPU waits for a batch"),
                       "host": ("host_us", "its GPU waits for its host")}[self.cause]
        others_us = statistics.median(getattr(pace, name) for pace in others)
        why = f" Its host waits for its GPU, and the others' do not: {', '.join(self.waits)}." if self.waits else ""
        return (f"Rank {self.rank} sets the pace, by its {self.cause}: {words} {getattr(mine, name) / 1e3:.2f} ms a step, "
                f"the others' {others_us / 1e3:.2f} ms; they wait {self.late_us / 1e3:.2f} ms of {step_us / 1e3:.2f} ms for "
                f"it.{why}")


def straggler(traces: Traces, *, partial: bool = False) -> Straggler:
    """Which rank sets the pace, and why.

    ``traces``, ``partial``: as :func:`gapless.views.read_ranks`. Raises TraceError as it does, and where the ranks'
    collectives do not match or no step was recorded on all of them.
    """
    ranks = read_ranks(traces, partial=partial)
    collectives = {rank: find_collectives(trace) for rank, trace in ranks.items()}
    meetings = meet(collectives, ranks)
    if not meetings:
        raise TraceError("the ranks never communicate: record steps in which they do, with the CUDA activity")
    windows = {rank: {window.name: window for window in step_windows(trace)} for rank, trace in ranks.items()}
    common = [name for name in next(iter(windows.values())) if all(name in each for each in windows.values())]
    if not common:
        raise TraceError("no step was recorded on every rank: call the profiler's step() after each step, on every rank")
    steps = common[1:] if len(common) >= 3 else common
    of_steps = {rank: _paces(rank, trace, collectives[rank], meetings, [windows[rank][name] for name in steps])
                for rank, trace in ranks.items()}
    blamed = _slow_links(meetings, set(ranks))
    by_step = tuple(StepPace(name, *_verdict([of_steps[rank][place] for rank in ranks], blamed))
                    for place, name in enumerate(steps))
    medians = tuple(RankPace(rank, *map(statistics.median, zip(*(astuple(pace)[1:] for pace in paces))))
                    for rank, paces in of_steps.items())
    rank, cause, late_us = _verdict(medians, blamed)
    late = [step for step in by_step if step.cause not in (None, "network")]
    if cause in (None, "network") and 2 * len(late) > len(by_step):
        cause = statistics.mode(step.cause for step in late)
        rank, late_us = None, statistics.fmean(step.late_us for step in by_step)
    waits = _own_waits(ranks, {each: [windows[each][name] for name in steps] for each in ranks}, rank) \
        if cause == "host" and rank is not None else ()
    return Straggler(rank, cause, late_us, medians, by_step, waits)


def _paces(rank: int, trace: Trace, collectives, meetings: list[Meeting], windows) -> list[RankPace]:
    """One a window."""
    spans = trace.spans
    computing, _ = rank_activity(trace, collectives)
    communication = union((span.start_us, span.end_us) for each in collectives for span in each.work)
    busy = union((span.start_us, span.end_us) for span in spans if span.category in DEVICE_WORK)
    loading = union((span.start_us, span.end_us) for span in spans
                    if span.category in ("op", "annotation") and span.name.startswith(LOADER))
    exposed = difference(communication, computing)
    transfers = [(meeting.of_rank[rank].work[0].start_us, meeting.transfer_us) for meeting in meetings
                 if rank in meeting.of_rank and meeting.of_rank[rank].work]
    rows = []
    for window in windows:
        span = window.start_us, window.end_us
        idle = difference(union([span]), busy)
        waits_for_input = within(loading, *span)
        idle_us, idle_without_input_us = length(idle), length(difference(idle, waits_for_input))
        rows.append(RankPace(rank, window.end_us - window.start_us, length(within(computing, *span)),
                             idle_us - idle_without_input_us, idle_without_input_us, length(within(exposed, *span)),
                             sum(us for start_us, us in transfers if span[0] <= start_us < span[1]),
                         length(waits_for_input)))
    return rows


def _own_waits(ranks: Mapping[int, Trace], windows: Mapping[int, Sequence], late: int) -> tuple[str, ...]:
    """Where the host of rank ``late`` waits for its GPU more often than the median of the others'."""
    found: dict[int, dict[str, list[float]]] = {}
    for rank, trace in ranks.items():
        waits = [wait for wait in find_waits(trace.spans)
                 if any(window.start_us <= wait.start_us < window.end_us for window in windows[rank])]
        found[rank] = defaultdict(list)
        for wait, line in zip(waits, locate(waits, trace.spans)):
            name = operator_name(wait) or wait.call.name
            found[rank][f"{name} at {line}" if line else name].append(wait.wait_us)
    others = [each for rank, each in found.items() if rank != late]
    more = {where: sum(us) for where, us in found[late].items()
            if len(us) > statistics.median(len(each.get(where, ())) for each in others)}
    return tuple(sorted(more, key=lambda where: -more[where])[:_SHOWN])


def _verdict(paces: Sequence[RankPace], blamed: int | None) -> tuple[int | None, str | None, float]:
    """(rank, cause, what the others wait for it); ``blamed``: the rank with the slow links."""
    step_us = statistics.median(pace.step_us for pace in paces)
    late = min(paces, key=lambda pace: pace.exposed_us)
    others = [pace for pace in paces if pace is not late]
    late_us = statistics.median(pace.exposed_us for pace in others) - late.exposed_us
    if late_us >= LATE * step_us:
        more = {cause: getattr(late, name) - statistics.median(getattr(pace, name) for pace in others)
                for cause, name in zip(CAUSES, ("computing_us", "input_us", "host_us", "transfer_us"))}
        if late.fetching_us - statistics.median(pace.fetching_us for pace in others) < more["input"] / 2:
            more["host"] += more.pop("input")
        cause = max(more, key=more.get)
        if cause != "network":
            return late.rank, cause, late_us
        return blamed, cause, late_us
    if statistics.median(pace.exposed_us for pace in paces) >= EXPOSED * step_us:
        return blamed, "network", 0.0
    return None, None, 0.0


def _slow_links(meetings: list[Meeting], ranks: set[int]) -> int | None:
    """The rank whose process groups are slow while no other is; None where there is no such rank, or only one group."""
    by_kind: dict[tuple, dict[tuple[int, ...], list[float]]] = defaultdict(lambda: defaultdict(list))
    for meeting in meetings:
        members = tuple(sorted(meeting.of_rank))
        size = next(iter(meeting.of_rank.values())).bytes
        by_kind[meeting.name, len(members), size][members].append(meeting.transfer_us)
    slow: Mapping[tuple[int, ...], list[bool]] = defaultdict(list)
    for groups in by_kind.values():
        if len(groups) > 1:
            times = {members: statistics.median(found) for members, found in groups.items()}
            for members, us in times.items():
                slow[members].append(us > _SLOWER * min(times.values()))
    votes = {members: sum(found) * 2 > len(found) for members, found in slow.items()}
    if not any(votes.values()) or all(votes.values()):
        return None
    blamed = [rank for rank in sorted(ranks) if all((rank in members) == is_slow for members, is_slow in votes.items())]
    return blamed[0] if len(blamed) == 1 else None
