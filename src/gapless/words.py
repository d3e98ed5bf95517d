"""Numbers, and where they come from, in words."""

from __future__ import annotations


def counted(count: float, noun: str) -> str:
    """Such as "1 kernel", "2.5 waits"."""
    return f"{count:g} {noun}" if count == 1 else f"{count:g} {noun}s"


def origin(simulated: bool, name: str) -> str:
    """Where a figure comes from: "simulated NVIDIA A10G" or "measured on NVIDIA H100"."""
    return f"simulated {name}" if simulated else f"measured on {name}"
