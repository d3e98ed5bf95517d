"""How work of several streams shares a part of the card: its multiprocessors, or one of its copy engines.

Work-conserving and first come, first served: what was launched earlier keeps its rate, what is launched later gets what
that leaves, until it is done. So the parts of a kernel that others leave no room for come later, and streams together are
never faster than the card. That earlier launches go first is how blocks are given to multiprocessors (Amert et al.,
"GPU Scheduling on the NVIDIA TX2: Hidden Details Revealed", RTSS 2017: blocks in the order of their kernels, those of
the next kernel where room is left); a copy engine moves one copy at a time, one engine a direction (CUDA C++ programming
guide, "overlap of data transfer and kernel execution").

Not modelled: a launch changes no time that an earlier launch was given, so kernels do not slow what runs already, and a
stream's priority has no effect; caches; the bandwidth that copies take from kernels; a kernel bound by arithmetic that
could go with one bound by memory; the most kernels at once (128).
"""

from __future__ import annotations

from bisect import bisect_right

WHOLE = 1000  # shares are parts of it: whole numbers, so that times are exact


class Engine:
    """How much of the part is taken when, by all that was launched so far. Times are in ns."""

    __slots__ = ("_times", "_taken")

    def __init__(self):
        self._times, self._taken = [0], [0]  # _taken[i] of WHOLE from _times[i] until _times[i + 1]

    def run(self, ready_ns: int, duration_ns: int, share: int) -> tuple[int, int]:
        """(begin, end) of work that may start at ``ready_ns`` and would take ``duration_ns`` by itself, with ``share`` of
        the part, and takes longer where less is left."""
        times, taken = self._times, self._taken
        work = duration_ns * share
        if not work:
            return ready_ns, ready_ns
        place = first = self._cut(ready_ns)
        begin_ns, now_ns = None, ready_ns
        while True:
            part = min(share, WHOLE - taken[place])
            until_ns = times[place + 1] if place + 1 < len(times) else None
            if part:
                begin_ns = now_ns if begin_ns is None else begin_ns
                end_ns = now_ns - work // -part
                if until_ns is None or end_ns <= until_ns:
                    self._cut(end_ns)
                    taken[place] += part
                    break
                taken[place] += part
                work -= part * (until_ns - now_ns)
            now_ns, place = until_ns, place + 1
        for boundary in range(place + 1, max(first, 1) - 1, -1):
            if taken[boundary] == taken[boundary - 1]:
                del times[boundary], taken[boundary]
        return begin_ns, end_ns

    def hold(self, begin_ns: int, end_ns: int, share: int) -> None:
        """Take ``share`` of the part from ``begin_ns`` until ``end_ns``, or what is left of it: work whose end others
        decide."""
        if end_ns <= begin_ns:
            return
        first, last = self._cut(begin_ns), self._cut(end_ns)
        for place in range(first, last):
            self._taken[place] = min(WHOLE, self._taken[place] + share)

    def forget(self, before_ns: int) -> None:
        """What is over by ``before_ns`` is nobody's concern: no later work starts sooner."""
        over = bisect_right(self._times, before_ns) - 1
        if over > 0:
            del self._times[:over], self._taken[:over]

    def _cut(self, ns: int) -> int:
        """The place of the span that begins at ``ns``, made of the span around it where there is none."""
        place = bisect_right(self._times, ns) - 1
        if place < 0:
            self._times.insert(0, ns)
            self._taken.insert(0, 0)
            return 0
        if self._times[place] == ns:
            return place
        self._times.insert(place + 1, ns)
        self._taken.insert(place + 1, self._taken[place])
        return place + 1
