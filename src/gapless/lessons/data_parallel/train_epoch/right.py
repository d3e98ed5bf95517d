"""Lesson 09: what is right for ``train_epoch``."""

from __future__ import annotations

from contextlib import nullcontext

import torch.nn.functional as F


def right_train_epoch(ddp, batches, optimizer, parts):
    """A step's gradients are sent once, by its last backward pass."""
    for start in range(0, len(batches), parts):
        group = batches[start:start + parts]
        optimizer.zero_grad()
        for place, (x, y) in enumerate(group, 1):
            with nullcontext() if place == len(group) else ddp.no_sync():
                loss = F.mse_loss(ddp(x.to("vgpu")), y.to("vgpu"))
                (loss / len(group)).backward()
        optimizer.step()
