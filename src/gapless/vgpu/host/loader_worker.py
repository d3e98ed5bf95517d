"""A worker process of PyTorch's ``DataLoader`` on the modelled host: it runs PyTorch's own loop, and counts what each batch
costs with a host clock of its own. The cost goes with the batch to the main process (:mod:`.data_loader`).

Counted: what ``host_clock`` counts, and :func:`gapless.host_work`, in the dataset, in collating, and before the first
batch in ``worker_init_fn`` and the dataset's ``__iter__``. A worker has one core.
"""

# mypy: disable-error-code="attr-defined"
# What is put in the place of PyTorch's own is not of the type that its stubs name, or is nothing that they know.
from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import _utils, dataloader

from ..hardware.cards.specs import Host
from ..hardware.clock.timeline import Timeline
from ..hardware.clock.workers import Cost
from ..process.state import state
from . import host_clock

PYTORCHS_LOOP = _utils.worker._worker_loop
_QUEUE, _INIT, _WORKER = 3, 9, 10
ARGUMENTS = {_QUEUE: "data_queue", _INIT: "init_fn", _WORKER: "worker_id"}  # those of it that are looked into


class Told:
    """What a worker sends beside the index of a batch: the ``data``, whose message it is, and what that cost."""

    __slots__ = ("data", "worker", "cost")

    def __init__(self, data, worker: int, cost: Cost):
        self.data, self.worker, self.cost = data, worker, cost

    def __reduce__(self):
        return Told, (self.data, self.worker, self.cost)

    def pin_memory(self, device=None) -> Told:
        """What the thread that pins calls."""
        return Told(_utils.pin_memory.pin_memory(self.data, device), self.worker, self.cost)


class Loop:
    """PyTorch's ``_worker_loop`` on ``host``; pickled it takes along the host of the card in use, and how its clock goes."""

    def __init__(self, host: Host | None = None, measured: bool | None = None):
        self._host, self._measured = host, measured

    def __reduce__(self):
        return Loop, (state.card.host, host_clock.is_measured())

    def __call__(self, *args) -> None:
        begin(self._host or state.card.host)
        if self._measured is not None:
            host_clock.measure(self._measured)
        create = dataloader._DatasetKind.create_fetcher
        dataloader._DatasetKind.create_fetcher = staticmethod(lambda *args: _Fetcher(_counted(create)(*args)))
        given = list(args)
        given[_QUEUE] = _Queue(given[_QUEUE], given[_WORKER])
        given[_INIT] = given[_INIT] and _counted(given[_INIT])
        PYTORCHS_LOOP(*given)


def begin(host: Host) -> None:
    """From now on this process is a worker: its host has a clock of its own, at zero, and one core."""
    host_clock.forget()
    state.link = None
    state.card = dataclasses.replace(state.card, host=dataclasses.replace(host, cores=1))
    state.timeline = Timeline(state.card)
    state.is_worker = True


def _counted(function):
    """``function``, whose Python and operators are on the clock."""
    def call(*args):
        with host_clock.counting():
            return function(*args)

    return call


class _Fetcher:
    def __init__(self, fetcher):
        self.fetch = _counted(fetcher.fetch)


class _Queue:
    """The queue of batches as PyTorch's loop sees it: with each goes the clock's time since the last."""

    def __init__(self, queue, worker: int):
        self._queue, self._worker, self._told_ns, self._blocked_ns = queue, worker, 0, 0

    def put(self, message) -> None:
        number, data = message
        now_ns = state.timeline.host_ns
        ends = isinstance(data, _utils.worker._IterableDatasetStopIteration)
        blocked_ns = host_clock.blocked_ns()
        wait_ns = blocked_ns - self._blocked_ns
        work_ns = max(0, now_ns - self._told_ns - wait_ns)  # a program may choose another card, and clock
        cost = Cost(work_ns, *size(data), ends, wait_ns)
        self._told_ns, self._blocked_ns = now_ns, blocked_ns
        if isinstance(data, ExceptionWrapper):  # the thread that pins leaves it as it is
            data.told = Told(None, self._worker, cost)
        else:
            data = Told(data, self._worker, cost)
        self._queue.put((number, data))

    def __getattr__(self, name):
        return getattr(self._queue, name)


def size(data) -> tuple[int, int]:
    """(bytes, number of tensors) of a batch: of tensors, arrays, bytes and texts in lists, tuples and dictionaries."""
    if isinstance(data, torch.Tensor):
        return data.numel() * data.element_size(), 1
    if isinstance(data, (np.ndarray, np.generic)):
        return data.nbytes, 0
    if isinstance(data, (str, bytes, bytearray)):
        return len(data), 0
    if isinstance(data, Mapping):
        data = list(data.values())
    if isinstance(data, (list, tuple)):
        sizes = [size(item) for item in data]
        return sum(nbytes for nbytes, _ in sizes), sum(tensors for _, tensors in sizes)
    return 0, 0
