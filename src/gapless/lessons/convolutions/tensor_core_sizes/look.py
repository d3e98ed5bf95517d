"""Lesson 05: what the notebook shows for ``tensor_core_sizes``."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from .stage import odd_network


def sized_step(tensor_core_sizes: Callable, device: torch.device) -> Callable[[], None]:
    """Forward and backward pass of 256 images of 3×32×32 in mixed precision and channels-last order, through a network of
    odd sizes as ``tensor_core_sizes(model)`` makes it. On the virtual GPU call it inside ``full_size``."""
    model = tensor_core_sizes(odd_network([61, 125], [251], 10, False, 0).to(device)).to(memory_format=torch.channels_last)
    images = torch.randn(256, 3, 32, 32, device=device).contiguous(memory_format=torch.channels_last)
    labels = torch.zeros(256, dtype=torch.int64, device=device)

    def step():
        model.zero_grad()
        with torch.autocast(device.type, torch.float16):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()

    return step
