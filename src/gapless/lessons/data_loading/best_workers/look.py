"""Lesson 04: what the notebook shows for ``best_workers``."""

from __future__ import annotations

import torch

from ....measure.device import clock_ms
from ..stage import forking


def epochs_ms(loader, device: torch.device, epochs: int = 3) -> list[float]:
    """The host's time for each epoch of ``loader``, with the start of its workers."""
    found = []
    with forking():
        for _ in range(epochs):
            start_ms = clock_ms(device)
            for _ in loader:
                pass
            found.append(clock_ms(device) - start_ms)
    return found
