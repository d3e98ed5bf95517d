"""Lesson 06: ``make_optimizer`` as handed out."""

from __future__ import annotations

import torch


def make_optimizer(parameters):
    """AdamW with a learning rate of 0.001. Matrices decay by 0.1; parameters with at most one dimension (biases,
    norms) do not."""
    groups = []
    for parameter in parameters:
        groups.append({"params": [parameter], "weight_decay": 0.1 if parameter.dim() > 1 else 0.0})
    return torch.optim.AdamW(groups, lr=1e-3)
