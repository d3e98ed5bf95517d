"""Lesson 09: ``make_batches`` as handed out."""

from __future__ import annotations


def make_batches(lengths, world, batch_size, epoch):
    """For each of ``world`` ranks its batches of an epoch, lists of places in ``lengths``; each holds at most
    ``batch_size``. Not balanced, in file order, and with unequal numbers on the ranks."""
    order = list(range(len(lengths)))
    batches = [order[start:start + batch_size] for start in range(0, len(order), batch_size)]
    return [batches[rank::world] for rank in range(world)]
