"""PyTorch's ``DataLoader`` with worker processes, on the modelled host.

Loader, processes, queues and values are PyTorch's. When a batch is there is worked out (:mod:`..hardware.clock.workers`)
from what each worker has counted (:mod:`.loader_worker`): the real machine's load changes nothing. For that the main process
gets what workers send in the order in which it is there on the modelled host, so it really waits for whatever could come
first. Without workers there is nothing to do: the host's clock counts the dataset as any Python.

PyTorch's own Python around the queues depends on real time (it polls). It is not counted; what it does at least is, by the
calls that it makes when the batch is there. A sampler's Python is counted.

Simplified: an error in a worker comes at once, and its time with the next batch; an iterator that is dropped half way ends
its workers in no time.
"""

# mypy: disable-error-code="assignment, attr-defined"
# What is put in the place of PyTorch's own is not of the type that its stubs name, or is nothing that they know.
from __future__ import annotations

import functools
import inspect
import itertools
import os
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import _utils, dataloader

from ..hardware.clock import workers
from ..hardware.clock.workers import Cost, Task, Workers
from ..process.state import state
from . import host_clock
from .loader_worker import ARGUMENTS, PYTORCHS_LOOP, Loop

_Iterator = dataloader._MultiProcessingDataLoaderIter
_get_data = _Iterator._get_data

BUSY_S = 20  # so much longer a worker may really take than `timeout` says, as the machine may be busy


_record: list[Task] | None = None  # of the loaders that are iterated now


@contextmanager
def recording() -> Iterator[list[Task]]:
    """What the workers of loaders do whose iterators are made inside, as it is worked out; on the modelled host's clock."""
    global _record
    before, _record = _record, []
    try:
        yield _record
    finally:
        _record = before


class NotModelledWarning(UserWarning):
    """A ``DataLoader`` with workers takes no time on the modelled host."""


class _ErrorHasCome(Exception):
    """The batch that the main process waits for is an error: no need to wait for what comes before it."""


class _Message:
    """What a worker has sent: PyTorch's pair ``number``, ``data``, and its ``cost``."""

    __slots__ = ("number", "data", "worker", "cost", "passed_on")

    def __init__(self, number, data):
        told = data.told if isinstance(data, ExceptionWrapper) else data
        self.number, self.worker, self.cost, self.passed_on = number, told.worker, told.cost, False
        self.data = data if isinstance(data, ExceptionWrapper) else told.data


class _Loading:
    """One iterator's workers: what they have really sent, and when it is there on the modelled host."""

    def __init__(self, iterator: _Iterator, loader):
        context = loader.multiprocessing_context or torch.multiprocessing
        method = context.get_start_method()
        self.method = method if method in workers.CREATE_NS else "fork"
        count = loader.num_workers
        self.process = os.getpid()
        self._iterator = weakref.ref(iterator)
        self._come: list[deque[_Message]] = [deque() for _ in range(count)]  # of each worker: what has come
        self._costed: list[deque[_Message]] = [deque() for _ in range(count)]  # … and the model knows the cost of
        self._timeline, self._seen_ns, self._offset_ns = state.timeline, 0, 0
        self.observe: Callable[[Cost], None] | None = None  # called with what each message took its worker
        now_ns, each_ns = self.now(), workers.CREATE_NS[self.method]
        self.model = Workers([now_ns + number * each_ns for number in range(1, count + 1)], workers.START_NS[self.method],
                             state.card.host.cores, self._cost_of, record=_record)
        state.timeline.host_work(count * each_ns)

    def now(self) -> int:
        """The host's clock, which here goes on where somebody has set it to zero."""
        timeline = state.timeline
        now_ns = timeline.host_ns
        if timeline is not self._timeline or now_ns < self._seen_ns:
            self._offset_ns += self._seen_ns - now_ns
        self._timeline, self._seen_ns = timeline, now_ns
        return now_ns + self._offset_ns

    def next_message(self) -> tuple:
        """PyTorch's pair of the next message on the modelled host, whose clock moves to when the main process has it."""
        iterator, now_ns = self._iterator(), self.now()
        try:
            while True:
                for message in itertools.chain(*self._costed, *self._come):
                    self._look_at(message)
                patience_ns = round(iterator._timeout * 1e9) or None
                ready_ns, worker = self.model.take(now_ns, patience_ns)
                if worker is None:
                    raise self._timed_out()
                message = self._costed[worker].popleft()
                if not message.passed_on:
                    break
        except _ErrorHasCome as error:
            (message,) = error.args
            message.passed_on = True
            return message.number, message.data
        taken_ns = 0 if self.model.pins else message.cost.receive_ns
        state.timeline.host_work(max(0, ready_ns - now_ns) + taken_ns)
        return message.number, message.data

    def _cost_of(self, worker: int) -> Cost:
        """The cost of the next message of ``worker``, for which this really waits. Raises what PyTorch raises where a worker
        has died."""
        while not self._come[worker]:
            message = _Message(*self._receive())
            self._come[message.worker].append(message)
            self._look_at(message)
        message = self._come[worker].popleft()
        self._costed[worker].append(message)
        if self.observe is not None:
            self.observe(message.cost)
        return message.cost

    def _receive(self) -> tuple:
        try:
            return self._really_receive()
        except (ConnectionError, EOFError):  # a worker dies: in a moment PyTorch can see which, and says so
            time.sleep(0.2)
            return self._really_receive()

    def _really_receive(self) -> tuple:
        iterator = self._iterator()
        if not iterator._timeout:
            return _get_data(iterator)
        come, message = iterator._try_get_data(iterator._timeout + BUSY_S)
        if not come:
            raise self._timed_out()
        return message

    def _timed_out(self) -> RuntimeError:
        timeout_s = self._iterator()._timeout
        state.timeline.host_work(round(timeout_s * 1e9))
        return RuntimeError(f"DataLoader timed out after {timeout_s} seconds")

    def _look_at(self, message: _Message) -> None:
        iterator = self._iterator()
        if (isinstance(message.data, ExceptionWrapper) and message.number == iterator._rcvd_idx and iterator._in_order
                and not message.passed_on):
            raise _ErrorHasCome(message)


# -- in place of the iterator's methods -------------------------------------------------------------


def _init(original, self, loader):
    if not isinstance(_utils.worker._worker_loop, Loop):  # somebody has put another loop in its place
        original(self, loader)
        return
    with host_clock.uncounted() as self._uncounted:
        self._loading = _Loading(self, loader)
        original(self, loader)
        self._loading.model.pins = self._pin_memory


def _reset(original, self, loader, first_iter=False):
    if first_iter:
        original(self, loader, first_iter)
        return
    with host_clock.uncounted() as self._uncounted:
        for worker in range(self._num_workers):
            state.timeline.host_work(workers.ASK_NS)
            self._loading.model.put(worker, self._loading.now(), resumes=True)
        original(self, loader, first_iter)


def _next(original, self):
    if state.link is None or not state.link.records:  # here `gapless.measure.recorder` sees PyTorch's own block
        return original(self)
    start_ns = state.timeline.host_ns
    try:
        return original(self)
    finally:
        state.timeline.annotate(self._profile_name, start_ns)


def _next_data(original, self):
    with host_clock.uncounted() as self._uncounted:
        was_shut = self._shutdown
        try:
            return original(self)
        finally:
            if self._shutdown and not was_shut:
                state.timeline.host_work(workers.END_NS[self._loading.method] + self._num_workers * workers.JOIN_NS)


def _next_index(original, self):
    with self._uncounted.but_for():  # a sampler is the program's
        return original(self)


def _try_put_index(original, self):
    number = self._send_idx
    original(self)
    if self._send_idx != number:
        state.timeline.host_work(workers.ASK_NS)
        self._loading.model.put(self._task_info[number][0], self._loading.now())


def _get_next(original, self):
    return self._loading.next_message()


def _del(original, self):
    if self._loading.process == os.getpid():  # a worker that was forked later has it too, and nobody to end
        with host_clock.silent():  # whenever Python comes to it
            with suppress(AttributeError, IndexError):  # it was never whole
                _end_workers(self)
            original(self)


def _end_workers(self) -> None:
    """End workers that PyTorch would wait for, five seconds each: where an iterator is garbage (an error that came out of it
    refers to it), its queues of indices were taken apart before it, and nothing that it says reaches a worker."""
    if self._shutdown or _utils.python_exit_status is not False or self._index_queues[0]._close.still_active():
        return
    if self._pin_memory:  # first, as it reads from the workers
        if self._pin_memory_thread is threading.current_thread():
            return
        self._pin_memory_thread_done_event.set()
        self._worker_result_queue.put((None, None))
        self._pin_memory_thread.join()
    if self._worker_pids_set:  # what ends now is no worker that died
        _utils.signal_handling._remove_worker_pids(id(self))
        self._worker_pids_set = False
    for worker in self._workers:
        worker.terminate()


_METHODS = {"_reset": _reset, "_next_data": _next_data, "_next_index": _next_index, "_try_put_index": _try_put_index,
            "_get_data": _get_next, "__del__": _del}


def _modelled(replacement, original):
    """``original`` for iterators that are not modelled, such as those from before the virtual GPU was enabled."""

    @functools.wraps(original)
    def method(self, *args, **kwargs):
        if getattr(self, "_loading", None) is None:
            return original(self, *args, **kwargs)
        return replacement(original, self, *args, **kwargs)

    return method


def _check_worker_number(self) -> None:
    """PyTorch's asks for the cores of the machine."""
    cores = state.card.host.cores
    if self.num_workers > cores:
        warnings.warn(f"this DataLoader has {self.num_workers} worker processes and the modelled host {cores} cores "
                      "(gapless.vgpu.card().host.cores)", stacklevel=3)


def _difference() -> str | None:
    """What this PyTorch's loader has that is not as in those that were tried (2.11 to 2.15); None: nothing."""
    arguments = tuple(inspect.signature(PYTORCHS_LOOP).parameters)
    if any(arguments[place:place + 1] != (name,) for place, name in ARGUMENTS.items()):
        return "_worker_loop"
    return next((name for name in _METHODS if not hasattr(_Iterator, name)), None)


def _plainly(begin, difference: str):
    """``begin``, which says so once."""

    @functools.wraps(begin)
    def __init__(self, loader):
        if _Iterator.__init__ is __init__:
            _Iterator.__init__ = begin
            warnings.warn(f"the DataLoader of torch {torch.__version__} is another than those that were tried "
                          f"({difference}): its workers take no time on the modelled host", NotModelledWarning, stacklevel=4)
        begin(self, loader)

    return __init__


def install() -> None:
    """Put loaders that are iterated from now on onto the modelled host."""
    difference = _difference()
    if difference is not None:
        _Iterator.__init__ = _plainly(_Iterator.__init__, difference)
        return
    _utils.worker._worker_loop = Loop()
    for name, replacement in _METHODS.items():
        setattr(_Iterator, name, _modelled(replacement, getattr(_Iterator, name)))
    dataloader.DataLoader.check_worker_number_rationality = _check_worker_number
    plain = dataloader._BaseDataLoaderIter.__next__
    dataloader._BaseDataLoaderIter.__next__ = functools.wraps(plain)(lambda self: _next(plain, self))
    begin = _Iterator.__init__

    @functools.wraps(begin)
    def __init__(self, loader):
        _init(begin, self, loader)

    _Iterator.__init__ = __init__
