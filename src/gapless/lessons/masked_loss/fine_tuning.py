"""Lesson 02: a program in which waits cost the time, not work: a small head that is trained on a frozen backbone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from .stage import CLASSES
from .workload import Size, make_batch, shape_only

WIDTH, STRIDE = 256, 8
BATCHES = (1, 2, 4, 8, 16, 32, 64)  # small, where the host is slower, to large, where the device is


def make_backbone() -> nn.Sequential:
    """The part that is already trained and does not change: four convolutions, 256 wide, an eighth of the image's side. Few
    kernels, and long ones."""
    layers: list[nn.Module] = [nn.Conv2d(3, WIDTH, 7, stride=STRIDE, padding=3), nn.ReLU()]
    for _ in range(3):
        layers += [nn.Conv2d(WIDTH, WIDTH, 3, padding="same"), nn.ReLU()]
    return nn.Sequential(*layers).eval().requires_grad_(False)


def make_head() -> nn.Sequential:
    """The part that is trained: ten channels and many short kernels."""
    layers: list[nn.Module] = [nn.Conv2d(WIDTH, 10, 1), nn.ReLU()]
    for _ in range(10):
        layers += [nn.Conv2d(10, 10, 3, padding="same"), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(10, CLASSES, 3, padding="same"))


def fine_tuning_step(loss: Callable, device: torch.device, batch: int, side: int = 256) -> Callable[[], None]:
    """A step that trains a small head on a frozen backbone: ``batch`` images of 3×``side``×``side``, one label for each
    square of eight by eight pixels.

    Before the loss the device is the slower worker, after it the host. On the virtual GPU call it inside
    ``full_size(device, LABELS)``.
    """
    torch.manual_seed(0)
    backbone, head = make_backbone().to(device), make_head().to(device)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.001, momentum=0.9)
    images, _ = make_batch(Size(batch, side), values=not shape_only(device))
    _, labels = make_batch(Size(batch, side // STRIDE), values=not shape_only(device))

    def step():
        x = images.to(device, non_blocking=True)
        target = labels.to(device, non_blocking=True)
        optimizer.zero_grad()
        features = backbone(x)
        loss(head(features), target).backward()
        optimizer.step()

    return step
