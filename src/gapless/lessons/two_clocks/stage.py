"""Lesson 00: what an exercise's cell finds defined, and how each exercise's function is called."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from ... import vgpu
from ...measure.device import clock_ms, synchronize
from ...vgpu.hardware.kernels import costs, multi_tensor


def card_for(device: torch.device) -> vgpu.Card:
    """The card that is modelled: the virtual GPU's; beside a real GPU the card of its name, else the course's default."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        return next((card for card in vgpu.CARDS.values() if card.name == name), vgpu.find_card("a10g"))
    return vgpu.card()


def kernels_s(card: vgpu.Card, operator: str, *shapes) -> float:
    """Seconds of an operator's kernels on the virtual ``card``: ``mm``, ``add`` or another one of float32 tensors alone. A
    list of shapes stands for a list of tensors."""
    inputs = tuple([torch.empty(each, device="meta") for each in shape] if isinstance(shape, list)
                   else torch.empty(shape, device="meta") for shape in shapes)
    out = getattr(torch, operator)(*inputs)
    kernels = (multi_tensor.kernels if isinstance(shapes[0], list) else costs.kernels)(operator, inputs, {}, out)
    return sum(kernel.duration_ns(card) for kernel in kernels) / 1e9


ANSWER = "ms a step"


def names() -> dict:
    """Name → what it stands for."""
    return {"torch": torch, "nn": nn, "F": F, "clock_ms": clock_ms, "synchronize": synchronize}
