"""Lesson 04: ``make_loader`` as handed out."""

from __future__ import annotations

from torch.utils.data import DataLoader


def make_loader(dataset, batch_size, workers):
    """Return a loader of all samples of ``dataset``, in another order each epoch and in pinned memory. It keeps its
    ``workers`` (0 or more) from epoch to epoch, and gives no two samples the same random numbers."""
    return DataLoader(dataset, batch_size, shuffle=True, num_workers=workers)
