"""Lesson 05: what the notebook shows for ``to_channels_last``."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .stage import make_mixing_network


def format_step(to_channels_last: Callable, device: torch.device) -> Callable[[], None]:
    """Forward and backward pass of 64 images of 8×64×64 in mixed precision, as ``to_channels_last(model)`` has it. On the
    virtual GPU call it inside ``full_size``."""
    model = make_mixing_network(32, 0, device)
    forward = to_channels_last(model)
    images = torch.randn(64, 8, 64, 64, device=device).contiguous(memory_format=torch.channels_last)

    def step():
        model.zero_grad()
        with torch.autocast(device.type, torch.float16):
            outputs = forward(images)
        outputs.float().square().mean().backward()

    return step
