"""Lesson 07: ``make_step`` as handed out."""

from __future__ import annotations

import torch


def make_step(model):
    """Returns ``step(batch)``, compiled: the mean loss of a batch B×L×D of any length L from 2 to 160. And the list of
    the lengths so far."""
    lengths = []

    def step(batch):
        lengths.append(batch.shape[1])
        place = torch.arange(batch.shape[1], device=batch.device) / batch.shape[1]
        return model(batch + place[:, None]).square().mean()

    return torch.compile(step, dynamic=False), lengths
