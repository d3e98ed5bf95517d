"""Lesson 02: the article's training step around the loss.

After Chaim Rand's "PyTorch Model Performance Analysis and Optimization, Part 3" (2023): its sizes, its rules, our code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from ... import vgpu
from ...course.exercise import full_size
from ...measure.profile import time_step
from ...vgpu import Assumptions
from . import functions
from .functions import CLASSES, IGNORE


@dataclass(frozen=True)
class LossParts:
    """The three functions that make up the loss."""

    ignore_background: Callable = functions.ignore_background
    zero_if_uniform: Callable = functions.zero_if_uniform
    masked_cross_entropy: Callable = functions.masked_cross_entropy

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
# What a step of the slow loss takes at most on the virtual GPU is 1056 bytes a pixel; a real one takes more around it.
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
    """A training step of the article's program with ``loss(pred, target)``, ready to be called again and again.

    SGD, learning rate 0.001, momentum 0.9; one pinned batch is copied to the device each step. On the virtual
    GPU call it inside ``full_size(device, LABELS)``. ``size``: the article's, if the card has the memory.
    """
    size = size or size_for(device)
    torch.manual_seed(0)
    network = make_network().to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.001, momentum=0.9)
    images, labels = make_batch(size, values=not _shape_only(device))

    def step():
        x = images.to(device, non_blocking=True)
        target = labels.to(device, non_blocking=True)
        optimizer.zero_grad()
        loss(network(x), target).backward()
        optimizer.step()

    return step


# -- where waits cost the time, not work -------------------------------------------------------------

FROZEN_WIDTH, STRIDE = 128, 8
BATCHES = (2, 4, 8, 16, 32, 64)


def make_backbone() -> nn.Sequential:
    """What has been trained already and stays as it is: four convolutions, 128 wide, an eighth of the image's side. Few
    kernels, and long ones."""
    layers: list[nn.Module] = [nn.Conv2d(3, FROZEN_WIDTH, 7, stride=STRIDE, padding=3), nn.ReLU()]
    for _ in range(3):
        layers += [nn.Conv2d(FROZEN_WIDTH, FROZEN_WIDTH, 3, padding="same"), nn.ReLU()]
    return nn.Sequential(*layers).eval().requires_grad_(False)


def make_head() -> nn.Sequential:
    """What is trained: ten channels and many short kernels."""
    layers: list[nn.Module] = [nn.Conv2d(FROZEN_WIDTH, 10, 1), nn.ReLU()]
    for _ in range(10):
        layers += [nn.Conv2d(10, 10, 3, padding="same"), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(10, CLASSES, 3, padding="same"))


def fine_tuning_step(loss: Callable, device: torch.device, batch: int, side: int = 256) -> Callable[[], None]:
    """A step that trains a small head on a frozen backbone: ``batch`` images of 3×``side``×``side``, one label for each square
    of eight by eight pixels.

    In front of the loss the device is the slower worker, behind it the host. On the virtual GPU call it inside
    ``full_size(device, LABELS)``.
    """
    torch.manual_seed(0)
    backbone, head = make_backbone().to(device), make_head().to(device)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.001, momentum=0.9)
    images, _ = make_batch(Size(batch, side), values=not _shape_only(device))
    _, labels = make_batch(Size(batch, side // STRIDE), values=not _shape_only(device))

    def step():
        x = images.to(device, non_blocking=True)
        target = labels.to(device, non_blocking=True)
        optimizer.zero_grad()
        features = backbone(x)
        loss(head(features), target).backward()
        optimizer.step()

    return step


# -- a share of the rows -----------------------------------------------------------------------------


def mask_first(hidden, head, target, max_valid):
    """The head's loss where a boolean mask picks the valid rows before the product: two waits."""
    valid = target != IGNORE
    return nn.functional.cross_entropy(hidden[valid] @ head.T, target[valid])


def head_step(function: Callable, device: torch.device, rows: int, width: int, vocabulary: int, valid: int) -> Callable[[], None]:
    """A forward and backward pass of ``function`` (``sparse_head_loss`` or another like it), ``valid`` of ``rows`` rows valid.

    On the virtual GPU call it inside ``full_size(device, share_valid(valid / rows))``.
    """
    hidden = torch.randn(rows, width, device=device, requires_grad=True)
    head = torch.randn(vocabulary, width, device=device, requires_grad=True)
    target = torch.full((rows,), IGNORE)
    target[torch.arange(valid) * rows // valid] = 0
    target = target.to(device)

    def step():
        hidden.grad = head.grad = None
        function(hidden, head, target, valid).backward()

    return step


def head_times(ways: dict[str, Callable], device: torch.device, vocabulary: int, one_in: int, rows: int = 8192, width: int = 768
               ) -> dict[str, float]:
    """What a step of the head takes, in ms, for each of the ``ways`` to compute its loss, with one row in ``one_in`` valid."""
    times = {}
    for name, function in ways.items():
        with full_size(device, share_valid(1 / one_in)):
            step = head_step(function, device, rows, width, vocabulary, rows // one_in)
            times[name] = time_step(step, warmup=1, steps=3, blocks=1, device=device).true_ms
    return times


def share_valid(share: float) -> Assumptions:
    """The sizes of results that depend on values where ``share`` of the labels is valid."""
    rest = 1 - share
    return Assumptions(densities={"ne": share, "ge": share, "gt": share, "eq": rest, "lt": rest, "le": rest}, density=share)


def _shape_only(device: torch.device) -> bool:
    return device.type == "vgpu" and vgpu.is_shape_only()
