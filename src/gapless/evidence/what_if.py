"""How long the profiled steps would take without something: without a wait, the input, the host's work, the device's.

The steps are played again from their trace: the host goes from call to call, each kernel starts when it has been launched
and its stream is free, each wait ends when what it waited for has. Leave something out, and what followed from it moves.
So a wait costs what the steps are longer for it: often more than its own length (what it kept the host from queuing comes
late) or nothing (the device was behind anyway).

Simplified: kernels last as long as they did, whatever runs beside them; work that waited for another stream waits for the
work there that had just ended; threads that launch by turns are one host.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from .traces.kinds import OPTIMIZER_MARK, OPTIMIZER_STEP
from .traces.steps import DEVICE_WORK, Steps
from .traces.trace import Span, Trace
from .traces.waits import Wait, find_waits

QUEUE_LENGTH = 1024  # launches that a stream holds before the next one waits
_SOON_US = 12.0  # what starts so soon after something else followed from it
ROUNDING_US = 1e-3  # a start and a duration, added up, may miss the end they were made from
_BLOCKED_US = 25.0  # a launch that took longer, and five times as long as most, was held up by a full queue
LOADER = "enumerate(DataLoader)#"  # what PyTorch's profiler calls the fetching of a batch
_COMMUNICATION = ("nccl", "c10d::", "ncclKernel")


@dataclass
class _Work:
    """Work of the device: ``after`` the call, or after the ``dependency``, by ``lag_us``."""

    span: Span
    duration_us: float
    lag_us: float = 0.0
    dependency: int | None = None
    communicates: bool = False


@dataclass
class _Item:
    """A call of the host: ``gaps_us`` of it and before it by what the host did, the works launched, the wait."""

    start_us: float
    gaps_us: dict[str, float]
    own_us: float
    works: list[int] = field(default_factory=list)
    wait: Wait | None = None
    target: int | None = None  # the work that the wait waited for
    tail_us: float = 0.0


def is_communication(name: str) -> bool:
    """Whether a kernel of this name moves data between GPUs."""
    return any(word in name for word in _COMMUNICATION)


class WhatIf:
    """The profiled steps of a trace, to be played again.

    ``waits`` are those within the steps, from ``start_us`` to ``end_us``, in order of time; ``actual_ms`` what the steps
    took in all, from the first step's start to the end of the last or of what the steps launched. Raises ValueError for a
    trace without profiled steps.
    """

    def __init__(self, trace: Trace):
        spans = trace.spans
        self._steps = Steps(spans)
        if not len(self._steps):
            raise ValueError("the trace has no profiled steps: record with gapless.profile, or call step() of the profiler")
        self.start_us = self._steps.spans[0].start_us
        self.end_us = max(span.end_us for span in self._steps.spans)
        self.steps = len(self._steps)
        self.waits = [wait for wait in find_waits(spans) if self.start_us <= wait.start_us < self.end_us]
        self._read(spans)
        works_end_us = max((work.span.end_us for work in self._works), default=self.end_us)
        self.actual_ms = (max(self.end_us, works_end_us) - self.start_us) / 1e3
        self.played_ms = self.ms()

    def ms(self, *, without_waits: Collection[Wait] | None = (), without: Collection[str] = (),
           without_device: bool = False, without_communication: bool = False,
           without_work: Callable[[Span], bool] | None = None) -> float:
        """Milliseconds of all steps, played without these ``waits`` (None: without any) and without what the host does under
        the names in ``without``: ``"input"`` (a ``DataLoader``'s next batch; ``"input (loader 1)"`` where the batch's block
        is marked so), ``"optimizer"``, ``"allocator"``, ``"host"``.
        ``without_device``: the device's work takes no time, so nothing is waited for; ``without_communication``: that
        between GPUs takes none. ``without_work``: nor does what this says of."""
        gone = set() if without_waits is None else {id(wait) for wait in without_waits}
        without = {name for name in self._activities.names if name in without or name.partition(" ")[0] in without}
        host, stream_end, ends, queues = 0.0, {}, {}, defaultdict(list)
        for item in self._items:
            host += sum(us for name, us in item.gaps_us.items() if name not in without)
            for number in item.works:
                work = self._works[number]
                queue = queues[work.span.thread]
                if len(queue) >= QUEUE_LENGTH:
                    host = max(host, queue[-QUEUE_LENGTH])
                ready = host + work.lag_us if work.dependency is None else ends.get(work.dependency, 0.0) + work.lag_us
                begin = max(ready, stream_end.get(work.span.thread, 0.0))
                free = (without_device or (without_communication and work.communicates)
                        or (without_work is not None and without_work(work.span)))
                ends[number] = stream_end[work.span.thread] = begin + (0.0 if free else work.duration_us)
                queue.append(ends[number])
            if item.wait is None:
                continue
            if without_waits is not None and id(item.wait) not in gone:
                target = ends.get(item.target)
                if target is not None:
                    host = max(host, target)
                host += item.tail_us
        host += sum(us for name, us in self._rest_us.items() if name not in without)
        return max(host, *stream_end.values(), 0.0) / 1e3 if stream_end else host / 1e3

    # -- reading ------------------------------------------------------------------------------------

    def _read(self, spans) -> None:
        calls = [span for span in spans if span.category == "runtime" and self.start_us <= span.start_us < self.end_us]
        by_call = {id(wait.call): wait for wait in self.waits}
        by_number: dict[object, list[Span]] = defaultdict(list)
        for span in spans:
            if span.category in DEVICE_WORK and span.args.get("correlation") is not None:
                by_number[span.args["correlation"]].append(span)
        launches = [call.end_us - call.start_us for call in calls if by_number.get(call.args.get("correlation"))
                    and id(call) not in by_call]
        usual_us = statistics.median(launches) if launches else 0.0
        self._activities = _Activities(spans)
        self._items: list[_Item] = []
        self._works: list[_Work] = []
        numbers: dict[int, int] = {}
        reached_us = self.start_us
        for call in calls:
            item = _Item(call.start_us, self._activities.between(reached_us, call.start_us), 0.0,
                         wait=by_call.get(id(call)))
            for span in by_number.get(call.args.get("correlation"), ()):
                numbers[id(span)] = len(self._works)
                item.works.append(len(self._works))
                self._works.append(_Work(span, span.end_us - span.start_us, span.start_us - call.end_us,
                                         communicates=is_communication(span.name)))
            begun_us = max(reached_us, call.start_us)
            if item.wait is None:
                own_us = max(0.0, call.end_us - begun_us)
                if item.works and own_us > max(_BLOCKED_US, 5 * usual_us):
                    own_us = usual_us
                name = "allocator" if call.name in ("cudaMalloc", "cudaFree") else self._activities.at(call.start_us)
                item.gaps_us[name] = item.gaps_us.get(name, 0.0) + own_us
            reached_us = max(reached_us, call.end_us)
            self._items.append(item)
        self._rest_us = self._activities.between(reached_us, self.end_us)
        self._relate()
        for item in self._items:
            if item.wait is not None:
                self._find_target(item, numbers, by_number)

    def _relate(self) -> None:
        """What each work started after: its call, the work before it in its stream, or other work."""
        before: dict[tuple, Span] = {}
        ended = sorted(((work.span.end_us, number) for number, work in enumerate(self._works)))
        for work in sorted(self._works, key=lambda work: work.span.start_us):
            own = before.get(work.span.thread)
            before[work.span.thread] = work.span
            if work.lag_us <= _SOON_US:
                continue
            if own is not None and work.span.start_us - own.end_us <= _SOON_US:
                work.lag_us = 0.0  # the stream's order says it
                continue
            near = [(end_us, number) for end_us, number in ended if -ROUNDING_US <= work.span.start_us - end_us <= _SOON_US
                    and self._works[number].span.thread != work.span.thread]
            if near:
                end_us, work.dependency = max(near)
                work.lag_us = work.span.start_us - end_us

    def _find_target(self, item: _Item, numbers: dict[int, int], by_number) -> None:
        wait, call = item.wait, item.wait.call
        own = by_number.get(wait.correlation) if wait.correlation is not None else None
        if own:
            item.target = numbers.get(id(own[-1]))
        else:
            done = [(work.span.end_us, number) for number, work in enumerate(self._works)
                    if work.span.end_us <= call.end_us + 1.0 and work.span.start_us < call.end_us]
            item.target = max(done)[1] if done else None
        if item.target is None:
            item.tail_us = call.end_us - call.start_us
        else:
            item.tail_us = max(0.0, call.end_us - max(self._works[item.target].span.end_us, call.start_us))


class _Activities:
    """What the host is doing at a time: ``"input"``, ``"optimizer"`` or, where nothing else is known, ``"host"``.
    ``names``: all that occur."""

    def __init__(self, spans):
        blocks = [span for span in spans if span.category in ("annotation", "op")]
        optimizer = OPTIMIZER_MARK if any(span.name == OPTIMIZER_MARK for span in blocks) else OPTIMIZER_STEP
        marked = [(span.start_us, span.end_us,
                   "input" + span.name.partition(".__next__")[2] if span.name.startswith(LOADER) else "optimizer")
                  for span in blocks if span.name.startswith((LOADER, optimizer))]
        self.names = {"host", "allocator", *(name for *_, name in marked)}
        self._blocks: list[tuple[float, float, str]] = []
        for start_us, end_us, name in sorted(marked):
            if not self._blocks or start_us >= self._blocks[-1][1]:
                self._blocks.append((start_us, end_us, name))

    def at(self, us: float) -> str:
        """What it is doing at a moment."""
        return next((name for start_us, end_us, name in self._blocks if start_us <= us < end_us), "host")

    def between(self, start_us: float, end_us: float) -> dict[str, float]:
        """Microseconds of each between two moments."""
        found: dict[str, float] = {}
        rest = max(0.0, end_us - start_us)
        for begin_us, stop_us, name in self._blocks:
            covered = min(stop_us, end_us) - max(begin_us, start_us)
            if covered > 0:
                found[name] = found.get(name, 0.0) + covered
                rest -= covered
        return {**found, "host": max(rest, 0.0)}
