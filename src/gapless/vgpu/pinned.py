"""Pinned host memory without a driver: ordinary memory, remembered as pinned while it lives."""

from __future__ import annotations

import weakref

import numpy as np
import torch

from .state import state

_pinned: dict[int, int] = {}  # address → bytes


def pin(source: torch.Tensor) -> torch.Tensor:
    """A copy of the CPU tensor ``source`` in pinned memory."""
    size = max(1, source.numel() * source.element_size())
    # NumPy owns the memory, so that its end can be seen: torch keeps the array alive with the storage.
    buffer = np.empty(size, dtype=np.uint8)
    address = buffer.ctypes.data
    _pinned[address] = size
    weakref.finalize(buffer, _pinned.pop, address, None)
    flat = torch.from_numpy(buffer)[: source.numel() * source.element_size()].view(source.dtype)
    copied = flat.as_strided(source.shape, torch.empty_like(source, device="meta").stride())
    if state.shape_only is None:  # else nobody reads the values: do not touch the pages
        copied.copy_(source)
    return copied


def is_pinned(tensor: torch.Tensor) -> bool:
    """Whether the CPU tensor lies in pinned memory."""
    return bool(_pinned) and tensor.untyped_storage().data_ptr() in _pinned
