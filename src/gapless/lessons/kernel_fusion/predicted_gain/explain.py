"""Lesson 07: why an answer to ``predicted_gain`` is wrong, where no known mistake gives it."""

from __future__ import annotations


def gain(case, found, wanted) -> str | None:
    """The bytes before, and what is left of them."""
    if not isinstance(found, (int, float)):
        return None
    before = sum(sum(part.values()) for kernel in case.options["kernels"] for part in kernel)
    if not before:
        return "These kernels move no bytes, and fused they move none: that is no gain, a factor of 1."
    return (f"These kernels move {before:,} bytes one after the other; fused they would move {before / wanted:,.0f}, and by "
            f"yours {before / found:,.0f}." if before and found else None)
