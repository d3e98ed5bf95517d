"""Lesson 05: ``train_step`` as handed out."""

from __future__ import annotations

import torch.nn.functional as F
from torch import nn


def train_step(model, optimizer, scaler, batches, dtype, max_norm):
    """One step of ``optimizer`` on ``batches``, a list of (x, y) of one size on the device. Returns the mean loss,
    a tensor there without its graph. ``scaler``: a GradScaler; ``dtype``: float16, or bfloat16 with a scaler that is
    switched off; ``max_norm``: limits the norm of the gradients."""
    optimizer.zero_grad()
    total = 0.0
    for x, y in batches:
        loss = F.cross_entropy(model(x), y) / len(batches)
        loss.backward()
        total += loss.detach()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return total
