"""Lesson 08: the slow program, which classifies each pixel of large images, and what may be done about its memory.

The network is small, 300,000 weights, and its images are large, 512×512: what takes the memory is what the layers keep
for the backward pass, most of all those at full size. Szymon Migacz, "PyTorch Performance Tuning Guide" (NVIDIA, tutorial
at ECCV 2020), names these layers, activations and up- and down-sampling, as the ones to compute again. The card is a T4:
16 GB, and what Google Colab lends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from .checkpointed import slow
from .stage import CLASSES, BlockNetwork

SIDE, WIDTH = 512, 64
BATCH = 16  # of each program in the headline's table
WANTED = 48
PARTS = 4
MOST = 4096


class PixelClasses(nn.Module):
    """Images N×3×H×W → N×(H·W)×classes, by the forward pass that ``make_forward(network)`` gives."""

    def __init__(self, network: nn.Module, make_forward: Callable):
        super().__init__()
        self.network = network
        self._forward = make_forward(network)

    def forward(self, images):
        return self._forward(images).flatten(2).transpose(1, 2)


@dataclass(frozen=True)
class Fixes:
    """What is done about the memory: the exercises' functions, or None; ``mixed_precision``: float16 by autocast; ``parts``
    for ``accumulate``."""

    checkpointed: Callable | None = None
    accumulate: Callable | None = None
    optimizer_in_backward: Callable | None = None
    mixed_precision: bool = False
    parts: int = 1


def training(device: torch.device, fixes: Fixes = Fixes()) -> Callable[[int], None]:
    """``step(batch)`` of the program with these ``fixes``: AdamW, new images in each step. On the virtual GPU call it inside
    ``full_size``."""
    with torch.device(device):
        network = BlockNetwork(WIDTH)
    model = PixelClasses(network, fixes.checkpointed or slow.checkpointed)
    if fixes.optimizer_in_backward is not None:
        train, _ = fixes.optimizer_in_backward(model, torch.optim.AdamW)
    else:
        optimizer = torch.optim.AdamW(model.parameters())

    def step(batch):
        images = torch.zeros(batch, 3, SIDE, SIDE, device=device)
        labels = torch.zeros(batch, SIDE * SIDE, dtype=torch.int64, device=device)
        with torch.autocast(device.type, torch.float16, enabled=fixes.mixed_precision):
            if fixes.accumulate is not None:
                fixes.accumulate(model, optimizer, images, labels, fixes.parts)
                return
            loss = F.cross_entropy(model(images).flatten(0, 1), labels.flatten())
        if fixes.optimizer_in_backward is not None:
            train(loss)
            return
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def looking(device: torch.device, graph: bool) -> Callable[[int], None]:
    """``step(batch)`` that only computes the classes, with a graph that nobody uses or without."""
    with torch.device(device):
        network = BlockNetwork(WIDTH)
    forward = slow.checkpointed(network)

    def step(batch):
        with torch.set_grad_enabled(graph):
            forward(torch.zeros(batch, 3, SIDE, SIDE, device=device)).argmax(1)

    return step


class Loss(nn.Module):
    """``model(images, labels)`` is the loss."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, images, labels):
        return F.cross_entropy(self.model(images).flatten(0, 1), labels.flatten())


def step_parts(device: torch.device, batch: int) -> tuple[nn.Module, tuple[torch.Tensor, ...], torch.optim.Optimizer]:
    """The slow program's model, whose result is the loss, a batch for it, and its optimizer: what ``budget`` is given."""
    with torch.device(device):
        model = Loss(PixelClasses(BlockNetwork(WIDTH), slow.checkpointed))
        images, labels = torch.zeros(batch, 3, SIDE, SIDE), torch.zeros(batch, SIDE * SIDE, dtype=torch.int64)
    return model, (images, labels), torch.optim.AdamW(model.parameters())


def size_in_words(device: torch.device) -> str:
    """Such as "batch 16 of 3×512×512"."""
    return f"batch {BATCH} of 3×{SIDE}×{SIDE} unless stated otherwise, a class of {CLASSES} for each pixel, AdamW"
