"""Lesson 05: a small network whose ``forward`` is written in the exercise's cell."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


class Block(nn.Module):
    """``mix``: the channels of each pixel among themselves. Then a convolution and its norm."""

    def __init__(self, before: int, after: int):
        super().__init__()
        self.mix = nn.Linear(before, after)
        self.conv = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(after)


class MixingNetwork(nn.Module):
    """Parts without a ``forward``: a stem (images of 8 channels → ``width``), blocks that double the channels, and a head
    from a mean over the pixels to eight classes."""

    def __init__(self, width: int, blocks: int = 2):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(8, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.blocks = nn.ModuleList(Block(width * 2**i, width * 2**(i + 1)) for i in range(blocks))
        self.head = nn.Linear(width * 2**blocks, 8)


def make_mixing_network(width: int, seed: int, device: torch.device) -> MixingNetwork:
    """Its weights drawn from ``seed``. The random numbers of others stay as they are."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MixingNetwork(width).to(device)


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
