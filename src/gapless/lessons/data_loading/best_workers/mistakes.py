"""Lesson 04: wrong ways to measure the number of workers that are not a small change of the solution (``mistakes.toml``)."""

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


def _smallest(times: dict[int, float]) -> int:
    return min(workers for workers, ms in times.items() if ms <= WITHIN * min(times.values()))
