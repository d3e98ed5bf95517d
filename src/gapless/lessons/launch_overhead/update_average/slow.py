"""Lesson 06: ``update_average`` as handed out."""

from __future__ import annotations

import torch


@torch.no_grad()
def update_average(averages, parameters, decay):
    """Each average, in place: ``decay`` of what it was, and the rest of what its parameter is. Both may be of any dtype with
    a fraction; ``parameters`` may be an iterator."""
    for average, parameter in zip(averages, parameters):
        average.mul_(decay).add_(parameter, alpha=1 - decay)
