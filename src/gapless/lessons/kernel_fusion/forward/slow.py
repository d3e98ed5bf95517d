"""Lesson 07: ``forward`` as handed out."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def forward(x, weight):
    """``x`` (N×D) times ``weight`` (D×K), divided by its largest absolute value, then one of two activations. Returns one
    number."""
    h = x @ weight
    print("the hidden layer is", tuple(h.shape))
    h = h / h.abs().max().item()
    if h.mean() > 0:
        h = torch.tanh(h)
    else:
        h = F.softplus(h)
    return h.square().mean()
