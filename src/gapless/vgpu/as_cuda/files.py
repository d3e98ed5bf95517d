"""A program's files: ``torch.save`` writes ``cuda:0`` for what is on the virtual GPU, so that they load elsewhere. For
``torch.load``, a file's ``cuda:0`` and ``map_location="cuda"`` are the virtual GPU."""

from __future__ import annotations

import functools

import torch
from torch import serialization

from ..process.state import DEVICE
from .asking import cuda_device, meant


def _location(storage) -> str | None:
    """What a file says of a storage of the virtual GPU."""
    return str(cuda_device()) if storage.device == DEVICE else None


def _restore(storage, location: str):
    """A storage that a file says was on ``cuda``."""
    if location.startswith("cuda"):
        return serialization.default_restore_location(storage, str(DEVICE))
    return None


def _place(map_location):
    """What ``torch.load`` takes. A file that was written here says ``vgpu:0``, of which the program knows nothing."""
    def ours(place):
        return str(meant(place)) if isinstance(place, (str, torch.device)) else place

    if isinstance(map_location, dict):
        return {name: ours(value) for key, value in map_location.items() for name in (key, ours(key))}
    if callable(map_location):
        return lambda storage, location: map_location(
            storage, str(cuda_device()) if location == str(DEVICE) else location)
    return meant(map_location)


def install(replaced) -> None:
    """Load so from now on."""
    plain = torch.load

    @functools.wraps(plain)
    def load(f, map_location=None, *args, **kwargs):
        return plain(f, _place(map_location), *args, **kwargs)

    replaced.put(torch, "load", load)
    replaced.put(serialization, "load", load)
    # The first that gives anything wins.
    replaced.put(serialization, "_package_registry",
                 [(0, _location, _restore), *serialization._package_registry])
    jit_load = torch.jit.load

    @functools.wraps(jit_load)
    def load_script(f, map_location=None, *args, **kwargs):
        return jit_load(f, meant(map_location), *args, **kwargs)

    replaced.put(torch.jit, "load", load_script)
