"""Lesson 04: the functions as handed out. Right, and slow."""

from __future__ import annotations

import torch
from torch.utils._pytree import tree_map
from torch.utils.data import DataLoader

from ...measure.device import clock_ms


def scale_down(x, limit):
    """``x`` (any shape, float32), scaled so that its norm is at most ``limit``."""
    norm = x.norm()
    if norm > limit:
        x = x * (limit / norm)
    return x


def prefetch(loader, device):
    """The batches of ``loader`` on the device, one after another. A batch is a tensor, or dicts, lists and tuples of
    them; what is no tensor stays as it is."""

    def move(value):
        return value.to(device) if isinstance(value, torch.Tensor) else value

    for batch in loader:
        yield tree_map(move, batch)


def best_workers(make_loader, candidates, device):
    """The number of workers, one of ``candidates``, whose loader is fastest once it runs; of those within 5 % of the
    fastest the smallest. ``make_loader(workers)`` gives a new loader, whose workers live on from epoch to epoch."""
    found = {}
    for workers in candidates:
        loader = make_loader(workers)
        start = clock_ms(device)
        for _ in loader:
            pass
        found[workers] = clock_ms(device) - start
    return min(found, key=found.get)


def make_loader(dataset, batch_size, workers):
    """The batches of ``dataset``, all of it in every epoch, each time in another order, made by so many ``workers`` (0 to
    many) that live on; in pinned memory; and no two samples augmented alike."""
    return DataLoader(dataset, batch_size, shuffle=True, num_workers=workers)
