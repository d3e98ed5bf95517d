"""PyTorch Geometric: ``torch_geometric.device("auto")``."""

from __future__ import annotations

import functools

from ..tensor import DEVICE
from .imports import replace


def _device(module) -> None:
    original = module.device

    @functools.wraps(original)
    def device(device):
        return DEVICE if device == "auto" else original(device)

    replace(module, "device", device)


TELLS = {"torch_geometric.device": _device}
