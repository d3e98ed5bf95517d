"""Lesson 08: what is right for ``largest_batch_that_fits``."""

from __future__ import annotations

import warnings

import torch


def right_largest_batch(step, most):
    """Doubling, then bisection; two calls of each batch, with nothing in reserve from the trial before."""

    def fits(batch):
        torch.accelerator.empty_cache()
        try:
            step(batch)
            step(batch)
        except torch.OutOfMemoryError:
            return False
        return True

    if not fits(1):
        warnings.warn("not even a batch of 1 fits", stacklevel=2)
        return 0
    held = torch.accelerator.memory_allocated()
    step(1)
    if torch.accelerator.memory_allocated() > held:
        raise ValueError("the step keeps more with each call")
    low, high = 1, 2
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
