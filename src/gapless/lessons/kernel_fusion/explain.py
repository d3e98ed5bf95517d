"""Lesson 07: why an answer is wrong that no known mistake gives, in words."""

from __future__ import annotations

import numpy as np


def alike(found, wanted) -> bool:
    """But for rounding."""
    found, wanted = np.asarray(found, dtype=float), np.asarray(wanted, dtype=float)
    return found.shape == wanted.shape and np.allclose(found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)
