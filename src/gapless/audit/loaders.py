"""The ``DataLoader``s that a program iterates over: how many workers, and whether their batches are pinned."""

from __future__ import annotations

import functools
from contextlib import contextmanager

from torch.utils.data import DataLoader


@contextmanager
def watched_loaders(found: list[dict]):
    """Inside, each loader that is iterated over for the first time is added to ``found``."""
    begin = DataLoader.__iter__
    seen: set[int] = set()

    @functools.wraps(begin)
    def iterate(loader):
        if id(loader) not in seen:
            seen.add(id(loader))
            size = loader.batch_size
            found.append({"num_workers": loader.num_workers,
                          "ahead": loader.num_workers * (loader.prefetch_factor or 0), "pin_memory": bool(loader.pin_memory),
                          "batch_size": size if isinstance(size, int) else None})
        return begin(loader)

    DataLoader.__iter__ = iterate
    try:
        yield found
    finally:
        DataLoader.__iter__ = begin
