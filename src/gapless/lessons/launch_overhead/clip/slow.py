"""Lesson 06: ``clip`` as handed out."""

from __future__ import annotations

import torch


@torch.no_grad()
def clip(parameters, max_norm):
    """Scales all gradients in place by one factor of at most 1, so that their total norm is at most ``max_norm``.
    Returns the norm before clipping, like ``torch.nn.utils.clip_grad_norm_``."""
    grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = sum(grad.norm().item() ** 2 for grad in grads) ** 0.5
    factor = max_norm / (norm + 1e-6)
    for grad in grads:
        grad.mul_(1.0 if factor > 1.0 else factor)
    return norm
