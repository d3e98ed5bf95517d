"""Lesson 04: how `best_workers` is called, with loaders of declared times and with PyTorch's own.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import multiprocessing
from torch.utils.data import DataLoader, Dataset

from ...course.plain import Unusable
from ...measure.device import host_work
from .declared_loader import DeclaredLoader, Times

WORKERS = "workers"


class Decoded(Dataset):
    """Samples that take the host a while each."""

    def __init__(self, samples: int, ms: float, device: torch.device):
        self._samples, self._ms, self._device = samples, ms, device

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, place: int) -> int:
        host_work(self._ms, self._device)
        return place


def start_method(workers: int = 1) -> str | None:
    """How this lesson's workers are started, for ``DataLoader(multiprocessing_context=…)``: forked where the system can,
    whatever its default (since Python 3.14 that is a server). Any other start takes seconds, and needs a dataset and a
    ``worker_init_fn`` that can be pickled, which those of a notebook's cells cannot. None: no workers, or the default."""
    return "fork" if workers and "fork" in multiprocessing.get_all_start_methods() else None


@contextmanager
def forking() -> Iterator[None]:
    """Inside, worker processes are started as :func:`start_method` says."""
    before, wanted = multiprocessing.get_start_method(allow_none=True), start_method()
    if wanted is not None:
        multiprocessing.set_start_method(wanted, force=True)
    try:
        yield
    finally:
        multiprocessing.set_start_method(before, force=True)


def times_of(options: dict) -> Times:
    """The case's."""
    return Times(**{name: tuple(map(tuple, value)) if isinstance(value, list) else value
                    for name, value in options["times"].items()})


class Maker:
    """``make_loader`` of a case: a new loader with so many workers. Raises Unusable for a number that is no candidate."""

    def __init__(self, options: dict, device: torch.device):
        self.times, self._read = times_of(options), set()
        self._options, self._device = options, device

    def __call__(self, workers: int):
        candidates = self._options["candidates"]
        if type(workers) is not int or workers not in candidates:
            raise Unusable(f"make_loader was called with {workers!r}, which is none of the candidates {candidates}.")
        rows = self._options.get("rows")
        if rows is None:
            return DeclaredLoader(self.times, workers, self._device, self._read)
        dataset = Decoded(self.times.batches * rows, self.times.work_ms / rows, self._device)
        return DataLoader(dataset, batch_size=rows, num_workers=workers, persistent_workers=workers > 0)


def ask_best_workers(function, given, device):
    """The number that ``function`` answers."""
    candidates = given.options["candidates"]
    make_loader = Maker(given.options, device)
    yield
    with forking():
        found = function(make_loader, list(candidates), device)
    yield
    if type(found) is not int or found not in candidates:
        words = "nothing: is there a `return`?" if found is None else f"{str(found)[:60]}:"
        raise Unusable(f"it returned {words} One of the candidates {candidates} is wanted.")
    return {WORKERS: found}
