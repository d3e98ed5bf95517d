"""Lesson 05: the slow program, a ResNet of eighteen layers for small images, and what may be done about it.

After Szymon Migacz, "PyTorch Performance Tuning Guide" (NVIDIA, tutorial at ECCV 2020): the talk's example of a convolution,
64 filters of 3×3 on 32×64×64×64, is the layer of which this network has most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context, parent_process

import torch
import torch.nn.functional as F
from torch import nn

from ... import vgpu
from ...course.exercise import full_size
from ...measure.device import clock_ms, synchronize
from ...measure.profile import time_step
from ...vgpu.core.tuning import autotuned

BATCH, SIDE, CLASSES = 32, 64, 200
LARGE_BATCH = 256
TALKS_LAYER = (32, 64, 64, 64)  # N×C×H×W of its input; 64 filters of 3×3


class Residual(nn.Module):
    """Two convolutions of 3×3 with a norm each, around them a shortcut. Every convolution has a bias."""

    def __init__(self, before: int, after: int, stride: int = 1):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(after)
        same = before == after and stride == 1
        self.shortcut = nn.Identity() if same else nn.Sequential(nn.Conv2d(before, after, 1, stride=stride),
                                                                 nn.BatchNorm2d(after))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def make_network() -> nn.Sequential:
    """Images of 3×64×64 → 200 classes: a stem, then two residual blocks at each of 64, 128, 256 and 512 channels."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()]
    before = 64
    for after in (64, 128, 256, 512):
        layers += [Residual(before, after, 1 if after == before else 2), Residual(after, after)]
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, CLASSES))


@dataclass(frozen=True)
class Fixes:
    """What is done about the program: ``tuned``, the autotuner; ``without_bias(model, images)``; ``channels_last``;
    ``mixed_precision``; ``batch``, images a step."""

    tuned: bool = False
    without_bias: Callable | None = None
    channels_last: bool = False
    mixed_precision: bool = False
    batch: int = BATCH


def training_step(device: torch.device, fixes: Fixes = Fixes()) -> Callable[[], None]:
    """A step of the program with these ``fixes``: forward and backward pass and SGD, on images that are on the device.

    On the virtual GPU call it inside ``full_size``; there it begins as in a process of its own, with no plan chosen yet.
    """
    torch.manual_seed(0)
    vgpu.forget_plans()
    order = torch.channels_last if fixes.channels_last else torch.contiguous_format
    model = make_network().to(device, memory_format=order)
    shape = fixes.batch, 3, SIDE, SIDE + own_columns(device, fixes.tuned)
    images = torch.randn(shape, device=device).contiguous(memory_format=order)
    target = torch.zeros(fixes.batch, dtype=torch.int64, device=device)
    if fixes.without_bias is not None:
        model = fixes.without_bias(model, images)
    step = sgd_step(model, images, target, fixes.mixed_precision)
    return in_tuning(step) if fixes.tuned else step


def own_columns(device: torch.device, tuned: bool) -> int:
    """How many columns more the images have: on CUDA a process keeps the plan of a shape that has run, tuned or not, so what
    is tuned has one more (1.6 % of 64)."""
    return int(tuned and device.type == "cuda")


def sgd_step(model: nn.Module, images: torch.Tensor, target: torch.Tensor, mixed_precision: bool) -> Callable[[], None]:
    """A step of SGD with momentum: in float32, or in float16 with a ``GradScaler``."""
    kind = images.device.type
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler(kind, enabled=mixed_precision)

    def step():
        optimizer.zero_grad()
        with torch.autocast(kind, torch.float16, enabled=mixed_precision):
            loss = F.cross_entropy(model(images), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


def in_tuning(step: Callable[[], None]) -> Callable[[], None]:
    """The same step with ``torch.backends.cudnn.benchmark`` on."""
    def tuned():
        with autotuned():
            step()

    return tuned


def first_steps_ms(device: torch.device, sides: Sequence[int], tuned: bool) -> list[float]:
    """ms of one training step after the other, the images of each so many pixels high and wide. On CUDA in a process of its
    own, in which no plan is chosen yet."""
    if device.type == "cuda" and parent_process() is None:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            return pool.submit(first_steps_ms, device, list(sides), tuned).result()
    with full_size(device):
        vgpu.forget_plans()
        model, times = make_network().to(device), []
        target = torch.zeros(BATCH, dtype=torch.int64, device=device)
        for side in sides:
            step = sgd_step(model, torch.randn(BATCH, 3, side, side, device=device), target, False)
            synchronize(device)
            start_ms = clock_ms(device)
            (in_tuning(step) if tuned else step)()
            synchronize(device)
            times.append(clock_ms(device) - start_ms)
    return times


def layer_times(device: torch.device, fixes: Fixes = Fixes()) -> tuple[float, float]:
    """Of the talk's layer, without a bias: ms of a forward pass, and of a forward and backward pass."""
    order = torch.channels_last if fixes.channels_last else torch.contiguous_format
    dtype = torch.float16 if fixes.mixed_precision else torch.float32
    with full_size(device):
        vgpu.forget_plans()
        layer = nn.Conv2d(64, 64, 3, padding=1, bias=False, device=device, dtype=dtype).to(memory_format=order)
        shape = *TALKS_LAYER[:3], TALKS_LAYER[3] + own_columns(device, fixes.tuned)
        x = torch.randn(shape, device=device, dtype=dtype).contiguous(memory_format=order).requires_grad_()
        gradient = torch.ones_like(x)

        def forward():
            with torch.no_grad():
                layer(x)

        def both():
            layer.weight.grad = x.grad = None
            layer(x).backward(gradient)

        steps = [in_tuning(step) if fixes.tuned else step for step in (forward, both)]
        return tuple(time_step(step, warmup=2, steps=50, blocks=3, device=device).true_ms for step in steps)
