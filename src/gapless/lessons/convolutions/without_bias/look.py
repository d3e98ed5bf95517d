"""Lesson 05: what a bias before a norm costs, by itself."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from ..workload import TALKS_LAYER


def bias_step(device: torch.device, bias: bool) -> Callable[[], None]:
    """Forward and backward pass of the talk's layer, with a ``bias`` or without, a norm and an activation.

    On the virtual GPU call it inside ``full_size``.
    """
    channels = TALKS_LAYER[1]
    conv = nn.Conv2d(channels, channels, 3, padding=1, bias=bias)
    model = nn.Sequential(conv, nn.BatchNorm2d(channels), nn.ReLU()).to(device)
    x = torch.randn(TALKS_LAYER, device=device)
    gradient = torch.ones_like(x)

    def step():
        model.zero_grad()
        model(x).backward(gradient)

    return step
