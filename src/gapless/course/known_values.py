"""Tensors with values beside a network without: what an exercise's function gets at full size, where the answer is known.

The virtual GPU's clock notices nothing of what reads and writes here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from .. import vgpu
from ..vgpu.state import state


def with_values(device: torch.device) -> AbstractContextManager:
    """Tensors made inside have values, on the virtual GPU at full size too."""
    return vgpu.exact() if device.type == "vgpu" else nullcontext()


def values_of(value):
    """The tensor that holds the values: on the virtual GPU the one inside; anything else as it is."""
    return value.inner if isinstance(value, vgpu.VirtualTensor) else value


def peek(value) -> float:
    """A scalar's value."""
    return float(values_of(value))


def write(tensor: torch.Tensor, values) -> None:
    """Other contents for a tensor."""
    values_of(tensor).copy_(torch.as_tensor(values))


@contextmanager
def unnoticed(device: torch.device) -> Iterator[None]:
    """What is done inside goes on another clock on the virtual GPU, and into no profile."""
    if device.type != "vgpu":
        yield
        return
    timeline = state.timeline
    state.timeline = vgpu.Timeline(timeline.card)
    try:
        yield
    finally:
        state.timeline = timeline
