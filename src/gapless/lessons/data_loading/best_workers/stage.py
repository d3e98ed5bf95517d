"""Lesson 04: how ``best_workers`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count

import torch
from torch.utils.data import DataLoader, Dataset

from ....course.plain import Unusable, left_alone
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
    many times as long it takes while somebody else uses the host, in every fourth epoch, from number ``first_disturbed``
    on."""

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
    first_disturbed: int = 1

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
        return dict(self.disturbed).get(workers, 1.0) if epoch % 4 == self.first_disturbed else 1.0


@cache
def _arrivals_ms(batches: int, work_ns: int, nbytes: int, workers: int, cores: int) -> tuple[float, ...]:
    """When each batch is there, in order, for somebody who takes each at once: as the modelled host computes it for
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
    """Behaves as a ``DataLoader`` that keeps its workers: ``len``, and batches in order, as often as one likes. Each epoch
    is one of ``epoch()``. It knows no times: they are in that closure."""

    def __init__(self, workers: int, batches: int, epoch: Callable[[], Iterator[int]]):
        self.num_workers, self._batches, self._epoch = workers, batches, epoch

    def __len__(self) -> int:
        return self._batches

    def __iter__(self) -> Iterator[int]:
        return self._epoch()


def declared_loader(times: Times, workers: int, device: torch.device,
                    read: set[int] | None = None, taken: set[int] | None = None) -> DeclaredLoader:
    """A loader whose epochs take the host what ``times`` says. ``read``: the batches whose files somebody has read;
    ``taken``: the numbers of workers with which a whole epoch was taken. Both are added to."""
    read = set() if read is None else read
    taken = set() if taken is None else taken
    numbers = count()

    def epoch() -> Iterator[int]:
        this = next(numbers)
        if this == 0:
            host_work(workers * times.start_ms, device)
        factor, before_ms = times.disturbance(workers, this), 0.0
        for number, ms in enumerate(times.epoch_ms(workers)):
            cold_ms = times.cold_ms if number not in read else 0.0
            host_work(factor * (ms - before_ms) + cold_ms, device)
            read.add(number)
            before_ms = ms
            yield number
        taken.add(workers)

    return DeclaredLoader(workers, times.batches, epoch)


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


def loader_maker(options: dict, device: torch.device, taken: set[int]) -> Callable:
    """``make_loader`` of a case, which gives a new loader with so many workers, and raises Unusable for a number that is no
    candidate. ``taken``: see :func:`declared_loader`; PyTorch's own loader counts as taken when it is made."""
    times, read, rows, candidates = times_of(options), set(), options.get("rows"), options["candidates"]

    def make_loader(workers):
        if type(workers) is not int or workers not in candidates:
            raise Unusable(f"make_loader was called with {workers!r}, which is none of the candidates {candidates}.")
        if rows is None:
            return declared_loader(times, workers, device, read, taken)
        taken.add(workers)
        dataset = Decoded(times.batches * rows, times.work_ms / rows, device)
        return DataLoader(dataset, batch_size=rows, num_workers=workers, persistent_workers=workers > 0)

    return make_loader


def ask_best_workers(function, given, device):
    """The number that ``function`` answers. Who has a choice has to have taken an epoch from each candidate's loader."""
    candidates, taken = given.options["candidates"], set()
    make_loader = loader_maker(given.options, device, taken)
    yield
    given_list = list(candidates)
    with forking():
        found = function(make_loader, given_list, device)
    yield
    left_alone("candidates", given_list, candidates)
    if type(found) is not int or found not in candidates:
        words = "nothing: is there a `return`?" if found is None else f"{str(found)[:60]}:"
        raise Unusable(f"it returned {words} One of the candidates {candidates} is wanted.")
    missing = [workers for workers in candidates if workers not in taken]
    if missing and len(candidates) > 1:
        raise Unusable(f"it answers {found}, and has taken no whole epoch from the loader with {missing[0]} workers. Each "
                       f"of {candidates} has to be measured, by whole epochs: a few batches tell little of the rest.")
    return {WORKERS: found}
