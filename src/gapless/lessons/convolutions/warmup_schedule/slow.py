"""Lesson 05: ``warmup_schedule`` as handed out."""

from __future__ import annotations

import torch


def warmup_schedule(optimizer, factor, warmup, total):
    """A scheduler of the learning rates of ``optimizer`` for a batch ``factor`` times as large, over ``total`` steps."""
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factor)
