"""Lesson 04: what is right for ``best_workers``."""

from __future__ import annotations

from statistics import median

from ....course.evidence import Case
from ....measure.device import clock_ms
from .stage import WORKERS, times_of

WITHIN = 1.05  # of the fastest


def wanted_workers(case: Case) -> dict:
    """What the declared times of an undisturbed epoch tell: nothing is measured, on a real GPU neither."""
    times = times_of(case.options)
    epoch_ms = {workers: times.epoch_ms(workers)[-1] for workers in case.options["candidates"]}
    fast = [workers for workers, ms in epoch_ms.items() if ms <= WITHIN * min(epoch_ms.values())]
    return {WORKERS: min(fast)}


def right_best_workers(make_loader, candidates, device):
    """Of each candidate the median of several epochs, after one that starts the workers."""
    def epoch_ms(loader) -> float:
        start = clock_ms(device)
        for _ in loader:
            pass
        return clock_ms(device) - start

    loaders = {workers: make_loader(workers) for workers in candidates}
    times = {workers: median([epoch_ms(loader) for _ in range(6)][1:]) for workers, loader in loaders.items()}
    return min(workers for workers, ms in times.items() if ms <= WITHIN * min(times.values()))
