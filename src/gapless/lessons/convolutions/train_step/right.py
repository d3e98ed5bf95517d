"""Lesson 05: what is right for ``train_step``."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


def right_train_step(model, optimizer, scaler, batches, dtype, max_norm):
    """Autocast around forward pass and loss; then unscale, clip, step, update."""
    optimizer.zero_grad()
    total = 0.0
    for x, y in batches:
        with torch.autocast(x.device.type, dtype=dtype):
            loss = F.cross_entropy(model(x), y) / len(batches)
        scaler.scale(loss).backward()
        total += loss.detach()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()
    return total
