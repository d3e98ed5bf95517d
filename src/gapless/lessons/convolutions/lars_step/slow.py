"""Lesson 05: ``lars_step`` as handed out."""

from __future__ import annotations

import torch


@torch.no_grad()
def lars_step(params, momenta, lr, momentum, weight_decay, trust):
    """A step of LARS, in which each parameter has its own rate. ``momenta``: a tensor for each parameter, changed in
    place."""
    for param, moment in zip(params, momenta):
        if param.grad is None:
            continue
        weight_norm = torch.linalg.vector_norm(param, dtype=torch.float32)
        grad_norm = torch.linalg.vector_norm(param.grad, dtype=torch.float32)
        rate = lr
        if weight_norm > 0 and grad_norm > 0:
            rate = lr * trust * weight_norm / (grad_norm + weight_decay * weight_norm)
        moment.mul_(momentum).add_(rate * (param.grad + weight_decay * param))
        param.sub_(moment)
