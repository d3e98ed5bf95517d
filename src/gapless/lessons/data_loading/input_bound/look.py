"""Lesson 04: four programs whose host spends time in the loader, and whose GPU is idle for other reasons, or not at all."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.utils.data import DataLoader

from ....course.exercise import full_size
from ....evidence.traces.trace import Trace
from ....measure.profile import profile
from ..workload import Photos, endless


def _loading(device: torch.device, batch: int):
    return endless(DataLoader(Photos(device), batch_size=batch))


def _slow_loader(device: torch.device):
    batches, layer = _loading(device, 64), nn.Conv2d(3, 64, 3).to(device)

    def step():
        images, _ = next(batches)
        layer(images.to(device)).mean().backward()

    return step


def _hidden_loader(device: torch.device):
    batches, layers = _loading(device, 64), nn.Sequential(*(nn.Conv2d(256, 256, 3) for _ in range(8))).to(device)
    features = torch.zeros(64, 256, 96, 96, device=device)

    def step():
        images, _ = next(batches)
        images.pin_memory().to(device, non_blocking=True)
        with torch.no_grad():
            layers(features)

    return step


def _many_launches(device: torch.device):
    batches = _loading(device, 4)

    def step():
        x = next(batches)[0].pin_memory().to(device, non_blocking=True)
        for _ in range(250):
            x = 0.5 * x + 0.5

    return step


def _many_waits(device: torch.device):
    batches = _loading(device, 4)

    def step():
        x = next(batches)[0].pin_memory().to(device, non_blocking=True)
        for _ in range(100):
            x = 0.5 * x + 0.5
            x.sum().item()

    return step


_PROGRAMS = {1: _many_launches, 2: _hidden_loader, 3: _slow_loader, 4: _many_waits}


def program(number: int, device: torch.device) -> Callable[[], object]:
    """The step of program 1, 2, 3 or 4. On the virtual GPU call it inside ``full_size``."""
    return _PROGRAMS[number](device)


def trace_of(number: int, device: torch.device) -> Trace:
    """Ten steps of a program."""
    with full_size(device):
        return profile(program(number, device), steps=10, device=device)
