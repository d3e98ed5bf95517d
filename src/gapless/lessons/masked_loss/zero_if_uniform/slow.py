"""Lesson 02: ``zero_if_uniform`` as handed out."""

from __future__ import annotations

import torch


def zero_if_uniform(loss, target):
    """The loss (a scalar), or zero where the labels hold fewer than two distinct values."""
    if torch.unique(target).numel() < 2:
        loss = 0.0 * loss
    return loss
