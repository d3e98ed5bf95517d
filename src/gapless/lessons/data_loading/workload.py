"""Lesson 04: the slow program."""

from __future__ import annotations

from collections.abc import Callable

import torch

ELEMENTS = 2**24  # of an update
LIMIT = 1.0


def training_step(scale_down: Callable, device: torch.device) -> Callable[[], None]:
    """A step that makes an update and applies it, scaled by ``scale_down(x, limit)``. On the virtual GPU call it inside
    ``full_size``."""
    weights, gradient = torch.zeros(ELEMENTS, device=device), torch.randn(ELEMENTS, device=device)

    def step():
        weights.sub_(scale_down(0.1 * gradient, LIMIT))

    return step
