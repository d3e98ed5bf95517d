"""Lesson 07: why an answer to ``predicted_gain`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from .right import bytes_after


def gain(case, found, wanted) -> str | None:
    """The bytes before, and what is left of them."""
    if not isinstance(found, (int, float)):
        return None
    before = sum(sum(part.values()) for kernel in case.options["kernels"] for part in kernel)
    after = bytes_after(**case.options)
    if not before:
        return "These kernels move no bytes, and fused they move none either. That is no gain: a factor of 1."
    if not after:
        return "Fused, these kernels have nothing to move. By the rules that is a factor of 1."
    return (f"These kernels move {before:,} bytes one after the other. Fused they would move {after:,}, "
            f"and by yours {before / found:,.0f}." if found else None)
