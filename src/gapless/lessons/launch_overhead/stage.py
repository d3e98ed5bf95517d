"""Lesson 06: what an exercise's cell finds defined.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

UNMEASURED = 6  # calls that may take their time: five that warm up, and a capture
COMPARED = 100  # numbers of a tensor, of more about as many


def some(tensor: torch.Tensor) -> torch.Tensor:
    """Not too many of its numbers; where they are few the tensor itself, as to look at it may be timed."""
    number = tensor.numel()
    return tensor if number <= COMPARED else tensor.detach().flatten()[::-(-number // COMPARED)]


def in_bfloat16(tensors: list[torch.Tensor], places: list[int]) -> list[torch.Tensor]:
    """The tensors, those at ``places`` cast to bfloat16, which NumPy does not have."""
    return [tensor.bfloat16() if place in places else tensor for place, tensor in enumerate(tensors)]


def names() -> dict:
    """Name → what it stands for."""
    return {"torch": torch, "nn": nn, "F": F}
