"""The same collective over the ranks of a run: who came last, how long the others waited, how long the data took.

A collective ends for all at about the same time and moves nothing before the last rank has come. So the shortest kernel
among the ranks is the data's transfer, what a longer one has beyond it is waiting, and the rank with the shortest came last.
Only durations are compared, as torch-tb-profiler 0.4.3 does: ranks on different machines may have clocks that disagree.

Collectives are matched by their order within a process group, as NCCL matches them. ``send`` and ``recv`` are between two
ranks and meet nobody else: they are left out. Older traces name no groups: then all ranks are one.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ..traces.communication import Collective, find_collectives
from ..traces.trace import Trace, TraceError
from ..traces.windows import host_windows, is_step

_BETWEEN_TWO = (":send", ":recv")


class MeetingError(TraceError):
    """The ranks' collectives are not the same; the message says where they differ."""


@dataclass(frozen=True, eq=False)
class Meeting:
    """One collective over its ranks."""

    name: str
    group: str
    of_rank: Mapping[int, Collective]

    @property
    def transfer_us(self) -> float:
        """How long the data took: the shortest over the ranks, kernel by kernel."""
        return sum(min(times) for times in zip(*map(_durations_us, self.of_rank.values())))

    def waiting_us(self, rank: int) -> float:
        """How long this rank's kernels waited for the others."""
        return sum(_durations_us(self.of_rank[rank])) - self.transfer_us

    @property
    def last(self) -> int:
        """The rank that came last: the one that waited least, the lowest of several."""
        return min(self.of_rank, key=lambda rank: (self.waiting_us(rank), rank))

    def transfer_ranges(self, rank: int) -> list[tuple[float, float]]:
        """(start, end) of the transfer within each of the rank's ranges, in µs: as long as the shortest range over the
        ranks, at the end of its own. The host's block counts as a range, as in TensorBoard's plugin."""
        least = [min(end - start for start, end in ranges)
                 for ranges in zip(*(each.ranges for each in self.of_rank.values()))]
        return [(end - shortest, end) for (_, end), shortest in zip(self.of_rank[rank].ranges, least)]


def find_meetings(ranks: Mapping[int, Trace]) -> list[Meeting]:
    """All collectives that the ranks did together, in the order of the lowest rank's calls.

    Where ranks recorded more before or after the profiled steps than others, what was called within the steps that all have
    counts. Raises MeetingError where the ranks' collectives differ in number, name or kernels.
    """
    return meet({rank: find_collectives(trace) for rank, trace in ranks.items()}, ranks)


def meet(collectives: Mapping[int, list[Collective]], ranks: Mapping[int, Trace]) -> list[Meeting]:
    """:func:`find_meetings` of collectives that are known already."""
    try:
        return _matched(collectives)
    except MeetingError as error:
        kept = _within_common_steps(collectives, ranks)
        if kept is None or all(len(kept[rank]) == len(collectives[rank]) for rank in kept):
            raise error
        return _matched(kept)


def _matched(collectives: Mapping[int, list[Collective]]) -> list[Meeting]:
    groups: dict[str, dict[int, list[Collective]]] = defaultdict(dict)
    for rank, each in collectives.items():
        for collective in each:
            if not collective.name.endswith(_BETWEEN_TWO):
                groups[collective.group].setdefault(rank, []).append(collective)
    meetings = []
    for group, of_rank in groups.items():
        told = next((each.members for listed in of_rank.values() for each in listed if each.members), None)
        # Where a group is known by its number alone, each rank of it is one that called something in it.
        expected = set(collectives) if not group else set(of_rank) | (set(told or ()) & set(collectives))
        _check_same(group, {rank: of_rank.get(rank, []) for rank in sorted(expected)})
        for row in zip(*(of_rank[rank] for rank in sorted(of_rank))):
            meetings.append(Meeting(row[0].name, group, dict(zip(sorted(of_rank), row))))
    return sorted(meetings, key=lambda meeting: next(iter(meeting.of_rank.values())).order_us)


def _check_same(group: str, of_rank: dict[int, list[Collective]]) -> None:
    """Raises MeetingError."""
    one, *others = of_rank
    where = f" in process group {group}" if group else ""
    for other in others:
        for place, (a, b) in enumerate(zip(of_rank[one], of_rank[other]), 1):
            for x, y, words in ((a.name, b.name, "is"), (len(a.kernels), len(b.kernels), "has as its number of kernels")):
                if x != y:
                    raise MeetingError(f"collective {place}{where} {words} {x} on rank {one} and {y} on rank {other}: a "
                                       "profiler missed some, or these are different runs; record the same steps on every "
                                       "rank")
        if len(of_rank[one]) != len(of_rank[other]):
            raise MeetingError(f"rank {one} has {len(of_rank[one])} collectives{where}, rank {other} has "
                               f"{len(of_rank[other])}: record the same steps on every rank")


def _within_common_steps(collectives: Mapping[int, list[Collective]], ranks: Mapping[int, Trace]):
    """What each rank called within the steps that all ranks have; None without steps."""
    steps = {rank: {window.name: window for window in host_windows(trace)} if any(map(is_step, trace.spans)) else {}
             for rank, trace in ranks.items()}
    common = set.intersection(*(set(each) for each in steps.values())) if steps else set()
    if not common:
        return None
    return {rank: [each for each in collectives[rank]
                   if any(steps[rank][name].start_us <= each.order_us < steps[rank][name].end_us for name in common)]
            for rank in collectives}


def _durations_us(collective: Collective) -> list[float]:
    return [span.end_us - span.start_us for span in collective.work]


def clock_offsets_us(meetings: list[Meeting]) -> dict[int, float]:
    """How far each rank's clock is ahead of the lowest rank's, as the ends of their collectives tell: the median over those
    that two ranks have in common. A rank that meets nobody, not even by way of others, is not in the answer."""
    ends: dict[tuple[int, int], list[float]] = defaultdict(list)
    for meeting in meetings:
        for one, a in meeting.of_rank.items():
            for other, b in meeting.of_rank.items():
                ends[one, other] += [last.end_us - first.end_us for first, last in zip(a.work[-1:], b.work[-1:])]
    ranks = sorted({rank for pair in ends for rank in pair})
    offsets = {ranks[0]: 0.0} if ranks else {}
    reached = list(offsets)
    while reached:
        one = reached.pop(0)
        for other in ranks:
            if other not in offsets and ends.get((one, other)):
                offsets[other] = offsets[one] + statistics.median(ends[one, other])
                reached.append(other)
    return offsets
