"""Lesson 04: the functions as handed out. Right, and slow."""

from __future__ import annotations


def scale_down(x, limit):
    """``x`` (any shape, float32), scaled so that its norm is at most ``limit``."""
    norm = x.norm()
    if norm > limit:
        x = x * (limit / norm)
    return x
