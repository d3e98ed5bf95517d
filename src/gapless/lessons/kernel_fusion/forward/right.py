"""Lesson 07: what is right for ``forward``."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def right_forward(x, weight):
    """The largest number and the choice stay on the device."""
    h = x @ weight
    h = h / h.abs().max().detach()
    return torch.where(h.mean() > 0, torch.tanh(h), F.softplus(h)).square().mean()
