"""The worker processes of a ``DataLoader`` on the modelled host: when a batch is there.

Knows nothing of PyTorch. Whole nanoseconds; the same costs give the same times to the last digit.

A worker does its tasks one after the other. Workers that are busy share the host's cores evenly (processor sharing); the
main process holds one core while it does anything but wait for a batch. What a worker has made goes to the main process,
or first through the thread that pins, one batch after the other.

Simplified: the main process and the thread that pins are never slowed by busy workers; at least one core is always left for
workers; a worker hands a batch over itself, where PyTorch has a thread for that; memory's bandwidth and caches are not
shared; a disk takes no time but what the dataset declares.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

# Measured by `python benchmarks/worker_costs.py` in November 2026, Python 3.11, torch 2.14.0, on a virtual machine with four
# Xeon cores that other work kept busy, so the smallest of its medians, rounded. Another host has others.
CREATE_NS = {"fork": 9_000_000, "forkserver": 4_000_000, "spawn": 3_500_000}  # the main process makes a worker's process
START_NS = {"fork": 18_000_000, "forkserver": 1_450_000_000, "spawn": 1_450_000_000}  # a worker, before its first batch
END_NS = {"fork": 5_000_000, "forkserver": 20_000_000, "spawn": 550_000_000}  # all of them end together …
JOIN_NS = 5_000_000  # … and the main process collects each
ASK_NS = 30_000  # the main process sends a worker the indices of a batch
HAND_OVER_NS = 470_000  # a worker puts a batch into the queue
HAND_OVER_TENSOR_NS = 100_000  # … for each tensor in it: shared memory, whose descriptor is passed on
SHARE_BYTES_PER_S = 2.4e9  # new pages of shared memory
RECEIVE_NS = 400_000  # the main process, or the thread that pins, takes a batch out of the queue
RECEIVE_TENSOR_NS = 150_000  # … for each tensor in it: its descriptor comes over a socket, and is mapped
PIN_BYTES_PER_S = 3.7e9  # one thread copies out of shared memory that it maps


@dataclass(frozen=True)
class Cost:
    """What a worker has done for one message: ``work_ns`` on a core, and ``wait_ns`` without one, for a disk or a network;
    what it hands over: ``tensors`` in all with ``nbytes``. ``ends``: it has no more batches until it resumes."""

    work_ns: int
    nbytes: int = 0
    tensors: int = 0
    ends: bool = False
    wait_ns: int = 0

    @property
    def hand_over_ns(self) -> int:
        """On the worker's core, beside ``work_ns``."""
        return HAND_OVER_NS + self.tensors * HAND_OVER_TENSOR_NS + round(self.nbytes / SHARE_BYTES_PER_S * 1e9)

    @property
    def receive_ns(self) -> int:
        """Of the one that takes it out of the queue."""
        return RECEIVE_NS + self.tensors * RECEIVE_TENSOR_NS

    @property
    def pin_ns(self) -> int:
        """Of the thread that pins, beside ``receive_ns``."""
        return round(self.nbytes / PIN_BYTES_PER_S * 1e9)


@dataclass(frozen=True)
class Task:
    """What a worker did from ``begun_ns`` to ``ended_ns``: its own start, or one message, with handing it over."""

    worker: int
    begun_ns: int
    ended_ns: int
    is_start: bool


@dataclass
class _Task:
    """``since_ns``: when the worker can begin it. ``left_ns``: work that is left; None where nobody has asked yet. ``cost``:
    None for a worker's start, which sends no message. ``begun_ns``: when the worker has begun it."""

    since_ns: int
    left_ns: int | None = None
    cost: Cost | None = None
    resumes: bool = False
    begun_ns: int = 0


@dataclass
class _Worker:
    tasks: deque[_Task] = field(default_factory=deque)
    ended: bool = False


class Workers:
    """The workers of one loader. ``started_ns``: when the process of each is there. ``cost_of(worker)`` is asked, in order,
    for the cost of that worker's next message, and may take as long as it wants. ``pins``: whether a thread pins.
    ``record``: where each :class:`Task` is put when it is done, if anywhere."""

    def __init__(self, started_ns: list[int], start_ns: int, cores: int, cost_of: Callable[[int], Cost], *,
                 pins: bool = False, record: list[Task] | None = None):
        self._workers = [_Worker(deque([_Task(since_ns, start_ns, begun_ns=since_ns)])) for since_ns in started_ns]
        self._cores, self._cost_of, self.pins, self._record = cores, cost_of, pins, record
        self._ns = min(started_ns)  # so far everything is worked out
        self._idle_until_ns = 0  # until then the main process waits
        self._pinned_ns = 0  # until then the thread that pins is busy
        self._sent: deque[tuple[int, int]] = deque()  # (when it can be taken, worker)

    def put(self, worker: int, now_ns: int, *, resumes: bool = False) -> None:
        """At ``now_ns`` the worker gets one more task; it answers with a message. ``resumes``: with no batch, but as one
        that may have batches again."""
        self._workers[worker].tasks.append(_Task(now_ns, resumes=resumes))

    def take(self, now_ns: int, patience_ns: int | None = None) -> tuple[int, int | None]:
        """The main process, busy until ``now_ns``, waits for the next message: when it can be taken, and whose it is.
        Messages come in the order in which they are there. The worker is None, and the message still to come, where it would
        take longer than ``patience_ns``. Raises LookupError where none will come."""
        self._advance(min(self._idle_until_ns, now_ns), self._cores)
        self._advance(now_ns, self._cores - 1)
        while not self._sent:
            self._advance(None, self._cores)
            if not self._sent:
                raise LookupError("no worker has anything to do")
        ready_ns, worker = self._sent[0]
        if patience_ns is not None and ready_ns > now_ns + patience_ns:
            self._idle_until_ns = now_ns + patience_ns
            return self._idle_until_ns, None
        self._idle_until_ns = max(now_ns, ready_ns)
        self._sent.popleft()
        return ready_ns, worker

    def _advance(self, until_ns: int | None, cores: int) -> None:
        """Work out what happens until then; None: until a message is sent, or nothing more happens."""
        cores = max(1, cores)
        while (until_ns is None and not self._sent) or (until_ns is not None and self._ns < until_ns):
            busy, next_ns = self._busy()
            if busy:
                each = max(len(busy), cores)  # of so many parts of the time a worker gets `cores`
                to_go = min(-(-task.left_ns * each // cores) for _, task in busy)
                next_ns = self._ns + to_go if next_ns is None else min(next_ns, self._ns + to_go)
            elif next_ns is None:
                if until_ns is not None:
                    self._ns = until_ns
                return
            if until_ns is not None:
                next_ns = min(next_ns, until_ns)
            passed_ns, self._ns = next_ns - self._ns, next_ns
            for number, task in busy:
                task.left_ns -= passed_ns * cores // each
                if task.left_ns <= 0:
                    self._done(number)

    def _busy(self) -> tuple[list[tuple[int, _Task]], int | None]:
        """(worker, its task) of those that work now; when the first of the others can begin (None: there are none)."""
        busy, next_ns = [], None
        for number, worker in enumerate(self._workers):
            while worker.ended and worker.tasks and not worker.tasks[0].resumes:
                worker.tasks.popleft()  # it answers none of these
            if not worker.tasks:
                continue
            task = worker.tasks[0]
            if task.since_ns > self._ns:
                next_ns = task.since_ns if next_ns is None else min(next_ns, task.since_ns)
                continue
            if task.left_ns is None:
                task.cost, task.begun_ns = self._cost_of(number), self._ns
                task.left_ns = task.cost.work_ns + task.cost.hand_over_ns
                if task.cost.wait_ns:  # first, as when it waits does not matter to what it takes
                    task.since_ns = self._ns + task.cost.wait_ns
                    next_ns = task.since_ns if next_ns is None else min(next_ns, task.since_ns)
                    continue
            busy.append((number, task))
        return busy, next_ns

    def _done(self, number: int) -> None:
        worker = self._workers[number]
        task = worker.tasks.popleft()
        if self._record is not None:
            self._record.append(Task(number, task.begun_ns, self._ns, task.cost is None))
        if task.cost is None:
            return
        worker.ended = task.cost.ends
        ready_ns = self._ns
        if self.pins:
            ready_ns = self._pinned_ns = max(ready_ns, self._pinned_ns) + task.cost.receive_ns + task.cost.pin_ns
        self._sent.append((ready_ns, number))
