"""Lesson 07: ``head_loss`` as handed out."""

from __future__ import annotations

import torch


def head_loss(x, residual, gate, weight, projection, target):
    """The head of a language model. ``x``, ``residual``, ``gate``: N×D, ``weight``: D, ``projection``: V×D,
    ``target``: N, int64 (-100: ignored). Returns the mean cross-entropy of the targets that are not ignored."""
    h = residual + gate * x * 0.5
    h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6) * weight
    logits = h @ projection.T
    log_probabilities = logits - torch.logsumexp(logits, -1, keepdim=True)
    counts = target != -100
    picked = log_probabilities.gather(1, torch.where(counts, target, 0)[:, None])[:, 0]
    return -torch.where(counts, picked, 0.0).sum() / counts.sum()
