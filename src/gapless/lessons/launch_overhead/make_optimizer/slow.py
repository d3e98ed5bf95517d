"""Lesson 06: ``make_optimizer`` as handed out."""

from __future__ import annotations

import torch


def make_optimizer(parameters):
    """AdamW with a learning rate of 0.001. Weight decay is 0.1 for parameters with two or more dimensions, and 0 for
    the others (biases, norms)."""
    groups = []
    for parameter in parameters:
        groups.append({"params": [parameter], "weight_decay": 0.1 if parameter.dim() > 1 else 0.0})
    return torch.optim.AdamW(groups, lr=1e-3)
