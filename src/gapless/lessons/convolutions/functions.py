"""Lesson 05: the functions as handed out. Right, and slow."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


def scale_down(x, limit):
    """``x`` (any shape, float32), scaled so that its norm is at most ``limit``."""
    norm = x.norm()
    if norm > limit:
        x = x * (limit / norm)
    return x


def train_step(model, optimizer, scaler, batches, dtype, max_norm):
    """One step of ``optimizer`` on ``batches``, a list of (x, y) of one size on the device; the mean loss. ``scaler``: a
    GradScaler; ``dtype``: float16, or bfloat16 with a scaler that is switched off; ``max_norm``: of the gradients."""
    optimizer.zero_grad()
    total = 0.0
    for x, y in batches:
        loss = F.cross_entropy(model(x), y) / len(batches)
        loss.backward()
        total += loss.detach()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return total


def largest_batch(step, most):
    """The largest multiple of 8, at most ``most``, with which ``step(batch)`` does not run out of memory; 0 if none is."""
    found = 0
    for batch in range(8, most + 1, 8):
        try:
            step(batch)
        except RuntimeError:
            break
        found = batch
    return found


def warmup_schedule(optimizer, factor, warmup, total):
    """A scheduler of the learning rates of ``optimizer`` for a batch ``factor`` times as large, over ``total`` steps."""
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factor)


@torch.no_grad()
def lars_step(params, momenta, lr, momentum, weight_decay, trust):
    """A step of LARS: each parameter at a rate of its own. ``momenta``: a tensor for each parameter, changed in place."""
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


def tensor_core_sizes(model):
    """The same network, with sizes that suit tensor cores: a Sequential of convolutions, norms, linear layers and others
    without weights, the last one a linear layer to the classes."""
    return model
