"""Lesson 08: ``largest_batch_that_fits`` as handed out."""

from __future__ import annotations


def largest_batch_that_fits(step, most):
    """The largest batch, at most ``most``, with which ``step(batch)`` does not run out of memory; 0 if none fits."""
    batch = 0
    while batch < most:
        try:
            step(batch + 1)
        except RuntimeError:
            break
        batch += 1
    return batch
