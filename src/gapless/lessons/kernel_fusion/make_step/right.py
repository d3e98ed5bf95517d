"""Lesson 07: what is right for ``make_step``."""

from __future__ import annotations

import torch


def right_make_step(model):
    """The list is Python's affair, and nothing hangs on the length."""
    lengths = []

    def step(batch):
        lengths.append(batch.shape[1])
        place = torch.arange(batch.shape[1], device=batch.device) / batch.shape[1]
        return model(batch + place[:, None]).square().mean()

    return step, lengths
