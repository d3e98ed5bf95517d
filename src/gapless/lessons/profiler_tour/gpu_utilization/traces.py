"""Small traces for lesson 01's checks: made by chance with known traps, or run on the clocks of a modelled card.

Neither needs a GPU or PyTorch's device: the first kind is written event by event, the second drives a timeline of its own.
"""

from __future__ import annotations

import numpy as np

from ..traces import COPY, Sketch


def host_trace(rng: np.random.Generator, copies=False, kernels=0) -> list[dict]:
    """Steps; with ``copies``, each has a copy. The last ``kernels`` of them have a kernel."""
    sketch, now = Sketch(), 1000 + rng.uniform(0, 100)
    for number in range(3):
        end = now + rng.uniform(50, 90)
        sketch.operator("aten::mm", now + 2, end - 4)
        if copies:
            sketch.work(COPY, now + 5, now + 10, now + 30, category="gpu_memcpy")
        if number >= 3 - kernels:
            sketch.work("only_kernel", now + 12, now + 20, now + 40)
        sketch.step(number, now, end)
        now = end + 1
    return sketch.finish(rng)
