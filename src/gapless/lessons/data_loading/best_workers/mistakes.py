"""Lesson 04: ways to measure the number of workers wrongly that are no small change of the solution (``mistakes.toml``)."""

from __future__ import annotations

from itertools import islice

from ....measure.device import clock_ms
from .right import WITHIN


def in_the_middle(make_loader, candidates, device):
    """The time between batches, once the first few are there."""
    found = {}
    for workers in candidates:
        loader = make_loader(workers)
        for _ in loader:
            pass
        batches = iter(loader)
        skipped = len(list(islice(batches, min(len(loader) - 2, max(1, workers)))))
        start = clock_ms(device)
        rest = len(list(batches))
        found[workers] = (clock_ms(device) - start) / rest if skipped else 0.0
    return _smallest(found)


def first_batch(make_loader, candidates, device):
    found = {}
    for workers in candidates:
        start = clock_ms(device)
        next(iter(make_loader(workers)))
        found[workers] = clock_ms(device) - start
    return _smallest(found)


def a_few_batches(make_loader, candidates, device):
    """Of the first epoch, once the first few are there."""
    found = {}
    for workers in candidates:
        batches = iter(make_loader(workers))
        list(islice(batches, 5))
        start = clock_ms(device)
        count = len(list(islice(batches, 10)))
        found[workers] = (clock_ms(device) - start) / max(1, count)
    return _smallest(found)


def _smallest(times: dict[int, float]) -> int:
    return min(workers for workers, ms in times.items() if ms <= WITHIN * min(times.values()))
