"""Lesson 06: the slow program, a small network of many parameters in whose step everything is done by Python, and what may
be done about it.

After Szymon Migacz, "PyTorch Performance Tuning Guide" (NVIDIA, tutorial at ECCV 2020): gradients set to None, debug APIs
switched off, fused building blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from .all_heads import slow
from .clear_grads import slow as clear_grads_slow
from .clip import slow as clip_slow
from .make_optimizer import slow as make_optimizer_slow
from .stage import UNMEASURED
from .update_average import slow as update_average_slow

BATCH, TOKENS, WIDTH, HEADS, BLOCKS, CLASSES = 16, 64, 256, 8, 3, 10
MAX_NORM, DECAY = 1.0, 0.999


class Block(nn.Module):
    """Tokens × ``WIDTH``: heads that each see a part of the width, then two linear layers; a norm before each, a shortcut
    around each."""

    def __init__(self, all_heads: Callable):
        super().__init__()
        size = WIDTH // HEADS
        self.all_heads = all_heads
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.heads = nn.ParameterList([nn.Parameter(torch.randn(size, size) * size**-0.5) for _ in range(HEADS)])
        self.join = nn.Linear(WIDTH, WIDTH)
        self.grow, self.shrink = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.join(self.all_heads(self.norm1(x), list(self.heads)))
        return x + self.shrink(F.relu(self.grow(self.norm2(x))))


class Network(nn.Module):
    """B × tokens × ``WIDTH`` → B × classes."""

    def __init__(self, all_heads: Callable):
        super().__init__()
        self.blocks = nn.Sequential(*(Block(all_heads) for _ in range(BLOCKS)))
        self.classes = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.classes(self.blocks(x).mean(1))


@dataclass(frozen=True)
class Fixes:
    """What is done about the program: ``anomaly_mode`` on or off, and the functions of the exercises. ``capture_step``:
    makes the step one launch."""

    anomaly_mode: bool = True
    clear_grads: Callable = clear_grads_slow.clear_grads
    update_average: Callable = update_average_slow.update_average
    clip: Callable = clip_slow.clip
    make_optimizer: Callable = make_optimizer_slow.make_optimizer
    all_heads: Callable = slow.all_heads
    capture_step: Callable | None = None


def training_step(device: torch.device, fixes: Fixes = Fixes()) -> Callable[[], None]:
    """A step of the program with these ``fixes``. On the virtual GPU call it inside ``full_size``."""
    torch.manual_seed(0)
    network = Network(fixes.all_heads).to(device)
    parameters = list(network.parameters())
    averages = [parameter.detach().clone() for parameter in parameters]
    optimizer = fixes.make_optimizer(parameters)
    x = torch.randn(BATCH, TOKENS, WIDTH, device=device)
    target = torch.zeros(BATCH, dtype=torch.int64, device=device)

    if fixes.capture_step is not None:
        return _as_one_launch(network, optimizer, averages, fixes, (x, target))

    def step():
        fixes.clear_grads(parameters)
        with torch.autograd.set_detect_anomaly(fixes.anomaly_mode):
            F.cross_entropy(network(x), target).backward()
        fixes.clip(parameters, MAX_NORM)
        optimizer.step()
        fixes.update_average(averages, parameters, DECAY)

    return step


def _as_one_launch(network: Network, optimizer: torch.optim.Optimizer, averages: list[torch.Tensor], fixes: Fixes,
                   batch: tuple[torch.Tensor, torch.Tensor]) -> Callable[[], None]:
    """What goes before the optimizer's step and after it becomes a part of it, so that it is captured too."""
    parameters = list(network.parameters())

    def before(*_) -> None:
        fixes.clip(parameters, MAX_NORM)

    def after(*_) -> None:
        fixes.update_average(averages, parameters, DECAY)

    optimizer.register_step_pre_hook(before)
    optimizer.register_step_post_hook(after)
    step = fixes.capture_step(network, optimizer, F.cross_entropy)
    for _ in range(UNMEASURED):
        step(*batch)
    return lambda: step(*batch)


def parameter_count() -> int:
    """Tensors that the network's optimizer has to look after."""
    with torch.device("meta"):
        return len(list(Network(slow.all_heads).parameters()))
