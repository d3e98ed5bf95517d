"""Lesson 06: ``update_average`` as handed out."""

from __future__ import annotations

import torch


@torch.no_grad()
def update_average(averages, parameters, decay):
    """Changes each average in place to ``decay`` · average + (1 − ``decay``) · parameter. Both may have any
    floating-point dtype; ``parameters`` may be an iterator."""
    for average, parameter in zip(averages, parameters):
        average.mul_(decay).add_(parameter, alpha=1 - decay)
