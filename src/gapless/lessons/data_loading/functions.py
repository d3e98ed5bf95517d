"""Lesson 04: the functions as handed out. ``input_bound`` and ``best_workers`` measure naively, ``make_loader`` repeats its
random numbers; the others are right, and slow."""

from __future__ import annotations

import torch
from torch.utils._pytree import tree_map
from torch.utils.data import DataLoader

from ...measure.device import clock_ms


def input_bound(trace):
    """The time in the loader's blocks, over the steps' time."""
    steps = [span for span in trace.spans if span.name.startswith("ProfilerStep#")]
    blocks = [span for span in trace.spans if span.name.startswith("enumerate(DataLoader)#")]
    return sum(span.end_us - span.start_us for span in blocks) / (steps[-1].end_us - steps[0].start_us)


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


def to_device(batch, device):
    """The batch with its tensors on the device, in whatever lists, tuples and dicts they come."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        moved = batch.copy()
        moved.update({key: to_device(value, device) for key, value in batch.items()})
        return moved
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(to_device(value, device) for value in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(to_device(value, device) for value in batch)
    return batch


def prepare(images, mean, std):
    """Images B×C×H×W, uint8, on the host: on the device of ``mean`` and ``std`` (C), with 0 … 255 as 0 … 1, normalised."""
    x = images.float() / 255
    x = x.to(mean.device)
    return (x - mean.view(-1, 1, 1)) / std.view(-1, 1, 1)


def prefetch(loader, device):
    """The batches of ``loader`` on the device, one after another. A batch is a tensor, or dicts, lists and tuples of
    them; what is no tensor stays as it is."""

    def move(value):
        return value.to(device) if isinstance(value, torch.Tensor) else value

    for batch in loader:
        yield tree_map(move, batch)
