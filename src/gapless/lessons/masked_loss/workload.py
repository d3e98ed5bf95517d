"""Lesson 02: the article's training step around the loss.

After Chaim Rand's "PyTorch Model Performance Analysis and Optimization, Part 3" (2023): its sizes, its rules, our code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from ... import vgpu
from ...vgpu import Assumptions
from .ignore_background import slow
from .masked_cross_entropy import slow as masked_cross_entropy_slow
from .stage import CLASSES, IGNORE
from .zero_if_uniform import slow as zero_if_uniform_slow


@dataclass(frozen=True)
class LossParts:
    """The three functions that make up the loss."""

    ignore_background: Callable = slow.ignore_background
    zero_if_uniform: Callable = zero_if_uniform_slow.zero_if_uniform
    masked_cross_entropy: Callable = masked_cross_entropy_slow.masked_cross_entropy

    def __call__(self, pred, target):
        """The loss of pred B×C×H×W and target B×H×W: a scalar."""
        target = self.ignore_background(target)
        loss = self.masked_cross_entropy(pred, target)
        return self.zero_if_uniform(loss, target)


@dataclass(frozen=True)
class Size:
    """``batch`` images of 3×``side``×``side``."""

    batch: int
    side: int


ARTICLE_SIZE = Size(256, 256)
# What a step of the slow loss takes at most on the virtual GPU is 1189 bytes a pixel; a real one takes more around it.
BYTES_PER_PIXEL = 1400
SMALL_SIZE = Size(2, 32)
# Labels are drawn evenly from −1 … 9, eleven values; 2 of 11 are ignored once the background is.
LABELS = Assumptions(
    densities={"eq": 1 / 11, "ne": 9 / 11, "ge": 9 / 11, "gt": 9 / 11, "lt": 2 / 11, "le": 2 / 11},
    distinct=10,
)


def size_for(device: torch.device) -> Size:
    """The article's size; on a card with too little memory for the slow loss, the batch halved until it fits."""
    if device.type == "vgpu":
        memory_bytes = vgpu.card().memory_bytes
    elif device.type == "cuda":
        memory_bytes = torch.cuda.get_device_properties(device).total_memory
    else:
        return ARTICLE_SIZE
    size = ARTICLE_SIZE
    while size.batch > 1 and size.batch * size.side**2 * BYTES_PER_PIXEL > memory_bytes:
        size = Size(size.batch // 2, size.side)
    return size


def make_network() -> nn.Sequential:
    """3×3 'same' convolutions: 3 → 10, ten of 10 → 10, each with ReLU, then 10 → 10 classes."""
    layers: list[nn.Module] = [nn.Conv2d(3, 10, 3, padding="same"), nn.ReLU()]
    for _ in range(10):
        layers += [nn.Conv2d(10, 10, 3, padding="same"), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(10, CLASSES, 3, padding="same"))


def make_batch(size: Size, *, values: bool = True, pinned: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    """Host tensors: images B×3×H×W float32 and labels B×H×W int64 from −1 … 9.

    Without ``values`` the memory is reserved and never touched: for shape-only simulation.
    """
    shape = (size.batch, 3, size.side, size.side)
    label_shape = (size.batch, size.side, size.side)
    if values:
        images, labels = torch.randn(shape), torch.randint(IGNORE, CLASSES, label_shape)
    else:
        images, labels = torch.empty(shape), torch.empty(label_shape, dtype=torch.int64)
    return (images.pin_memory(), labels.pin_memory()) if pinned else (images, labels)


def training_step(loss: Callable, device: torch.device, size: Size | None = None) -> Callable[[], None]:
    """Return a training step of the article's program with ``loss(pred, target)``, which can be called many times.

    SGD, learning rate 0.001, momentum 0.9; one pinned batch is copied to the device each step. On the virtual
    GPU call it inside ``full_size(device, LABELS)``. ``size``: the article's, if the card has the memory.
    """
    size = size or size_for(device)
    torch.manual_seed(0)
    network = make_network().to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.001, momentum=0.9)
    images, labels = make_batch(size, values=not shape_only(device))

    def step():
        x = images.to(device, non_blocking=True)
        target = labels.to(device, non_blocking=True)
        optimizer.zero_grad()
        loss(network(x), target).backward()
        optimizer.step()

    return step


def shape_only(device: torch.device) -> bool:
    """Whether tensors made on ``device`` now have no values."""
    return device.type == "vgpu" and vgpu.is_shape_only()
