"""Lesson 05: what is right for ``largest_batch``."""

from __future__ import annotations

import torch


def right_largest_batch(step, most):
    """Bisection over the multiples of 8."""
    low, high = 0, most // 8 + 1  # 8 · low fits, 8 · high does not
    while high - low > 1:
        middle = (low + high) // 2
        try:
            step(8 * middle)
            fits = True
        except torch.OutOfMemoryError:
            fits = False
        low, high = (middle, high) if fits else (low, middle)
    return 8 * low
