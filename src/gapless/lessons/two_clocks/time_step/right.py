"""Lesson 00: what is right for ``time_step``."""

from __future__ import annotations

import statistics

from ....measure.device import clock_ms, synchronize


def right_time_step(step, warmup, steps, device):
    """What a step takes in a run of ``steps``, in ms; on a real GPU the median of five runs."""
    for _ in range(warmup):
        step()
    found = []
    for _ in range(1 if device.type == "vgpu" else 5):
        synchronize(device)
        start = clock_ms(device)
        for _ in range(steps):
            step()
        synchronize(device)
        found.append((clock_ms(device) - start) / steps)
    return statistics.median(found)
