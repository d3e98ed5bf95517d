"""Lesson 00: ``time_step`` as handed out."""

from __future__ import annotations

from ....measure.device import clock_ms


def time_step(step, warmup, steps, device):
    """The usual stopwatch: nothing waits for the device."""
    start = clock_ms(device)
    for _ in range(steps):
        step()
    return (clock_ms(device) - start) / steps
