"""Lesson 05: what is right for ``warmup_schedule``."""

from __future__ import annotations

import math

import torch


def right_warmup_schedule(optimizer, factor, warmup, total):
    """A line from 1 to ``factor``, then half a cosine from there to 0."""

    def factor_of(step):
        if step < warmup:
            return 1 + (factor - 1) * step / warmup
        done = min((step - warmup) / (total - warmup), 1.0)
        return factor * (1 + math.cos(math.pi * done)) / 2

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor_of)
