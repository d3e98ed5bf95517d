"""Lesson 04: how ``best_workers`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import torch
from torch.utils.data import DataLoader, Dataset

from ....course.plain import Unusable
from ....measure.device import host_work
from ....vgpu.hardware.clock.workers import Cost, Workers
from ..stage import forking

PREFETCHED = 2  # batches that a worker is asked for beforehand: PyTorch's prefetch_factor


@dataclass(frozen=True)
class Times:
    """What a loader takes. ``batches``: of an epoch; ``work_ms``: one of them, in a worker or without; ``nbytes``: what a
    worker hands over with it. ``cores``: of the host. ``start_ms``: until all workers are there, for each of them.
    ``crowding``: by how much a batch takes longer for each worker more than there are cores. ``cold_ms``: what a batch
    takes longer when nobody has read its file yet. ``luck``: number of workers → how many times as long it happens to take
    with them; ``late``: the same of the second half of each epoch's batches. ``disturbed``: how
    many times as long it takes while somebody else uses the host, in every fourth epoch, from the second on."""

    batches: int
    work_ms: float
    nbytes: int = 0
    cores: int = 8
    start_ms: float = 0.0
    crowding: float = 0.0
    cold_ms: float = 0.0
    luck: tuple[tuple[int, float], ...] = ()
    late: tuple[tuple[int, float], ...] = ()
    disturbed: tuple[tuple[int, float], ...] = ()

    def epoch_ms(self, workers: int) -> list[float]:
        """When each batch is there, in an epoch that nothing disturbs and whose workers have nothing to do at its begin."""
        work_ms = self.work_ms * (1 + self.crowding * max(0, workers - self.cores)) * dict(self.luck).get(workers, 1.0)
        if not workers:
            arrivals = [work_ms * (number + 1) for number in range(self.batches)]
        else:
            arrivals = list(_arrivals_ms(self.batches, round(work_ms * 1e6), self.nbytes, workers, self.cores))
        half, late = self.batches // 2, dict(self.late).get(workers, 1.0)
        half_ms = arrivals[half - 1] if half else 0.0
        return arrivals[:half] + [half_ms + late * (ms - half_ms) for ms in arrivals[half:]]

    def disturbance(self, workers: int, epoch: int) -> float:
        """How many times as long epoch number ``epoch`` takes."""
        return dict(self.disturbed).get(workers, 1.0) if epoch % 4 == 1 else 1.0


@cache
def _arrivals_ms(batches: int, work_ns: int, nbytes: int, workers: int, cores: int) -> tuple[float, ...]:
    """When each batch is there, in order, for somebody who takes each at once: as the modelled host reckons it for
    PyTorch's loader."""
    cost = Cost(work_ns, nbytes, tensors=1 if nbytes else 0)
    model = Workers([0] * workers, 0, cores, lambda worker: cost)
    asked: list[deque[int]] = [deque() for _ in range(workers)]
    now_ns, following, come, arrivals = 0, 0, set(), []

    def ask() -> None:
        nonlocal following
        if following < batches:
            worker = following % workers
            model.put(worker, now_ns)
            asked[worker].append(following)
            following += 1

    for _ in range(PREFETCHED * workers):
        ask()
    for number in range(batches):
        while number not in come:
            ready_ns, worker = model.take(now_ns)
            now_ns = max(now_ns, ready_ns) + cost.receive_ns
            come.add(asked[worker].popleft())
            ask()
        arrivals.append(now_ns / 1e6)
    return tuple(arrivals)


class DeclaredLoader:
    """Behaves as a ``DataLoader`` that keeps its workers: ``len``, and batches in order, as often as one likes. Each
    epoch takes the host what ``times`` says. ``read``: the batches whose files somebody has read."""

    def __init__(self, times: Times, workers: int, device: torch.device, read: set[int]):
        self.num_workers, self._times, self._device, self._read = workers, times, device, read
        self._epochs = 0

    def __len__(self) -> int:
        return self._times.batches

    def __iter__(self) -> Iterator[int]:
        times, workers, epoch = self._times, self.num_workers, self._epochs
        self._epochs += 1
        if epoch == 0:
            host_work(workers * times.start_ms, self._device)
        factor, before_ms = times.disturbance(workers, epoch), 0.0
        for number, ms in enumerate(times.epoch_ms(workers)):
            cold_ms = times.cold_ms if number not in self._read else 0.0
            host_work(factor * (ms - before_ms) + cold_ms, self._device)
            self._read.add(number)
            before_ms = ms
            yield number


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
