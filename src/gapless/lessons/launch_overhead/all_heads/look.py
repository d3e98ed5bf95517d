"""Lesson 06: what the notebook shows for ``all_heads``."""

from __future__ import annotations

from collections.abc import Callable

import torch


def heads_step(all_heads: Callable, device: torch.device, heads: int = 48, rows: int = 64) -> Callable[[], None]:
    """Forward and backward pass of ``heads`` heads of 16 × 16, and a smaller last one, over ``rows`` rows."""
    weights = [torch.zeros(size, device=device, requires_grad=True) for size in [(16, 16)] * heads + [(9, 5)]]
    x = torch.zeros(rows, sum(map(len, weights)), device=device, requires_grad=True)
    gradient = torch.ones(rows, sum(weight.shape[1] for weight in weights), device=device)

    def step():
        x.grad = None
        for weight in weights:
            weight.grad = None
        all_heads(x, weights).backward(gradient)

    return step
