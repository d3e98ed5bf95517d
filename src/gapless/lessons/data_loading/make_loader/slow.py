"""Lesson 04: ``make_loader`` as handed out."""

from __future__ import annotations

from torch.utils.data import DataLoader


def make_loader(dataset, batch_size, workers):
    """The batches of ``dataset``, all of it in every epoch, each time in another order, made by so many ``workers`` (0 to
    many) that live on; in pinned memory; and no two samples augmented alike."""
    return DataLoader(dataset, batch_size, shuffle=True, num_workers=workers)
