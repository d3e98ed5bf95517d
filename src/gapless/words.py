"""Numbers in words."""

from __future__ import annotations


def counted(count: float, noun: str) -> str:
    """Such as "1 kernel", "2.5 waits"."""
    return f"{count:g} {noun}" if count == 1 else f"{count:g} {noun}s"
