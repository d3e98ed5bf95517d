"""Lesson 02: when it pays to select the valid rows before a language model's head."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F

from ....course.exercise import full_size
from ....measure.profile import time_step
from ....vgpu import Assumptions
from ..stage import IGNORE

ROWS, WIDTH = 8192, 768


def mask_first(hidden, head, target, max_valid):
    """The head's loss where a boolean mask picks the valid rows before the product: two waits."""
    valid = target != IGNORE
    return F.cross_entropy(hidden[valid] @ head.T, target[valid])


def head_step(function: Callable, device: torch.device, vocabulary: int, one_in: int) -> Callable[[], None]:
    """A forward and backward pass of ``function``: ``sparse_head_loss`` or another like it. One row in ``one_in`` is valid.

    On the virtual GPU call it inside ``full_size(device, share_valid(1 / one_in))``.
    """
    hidden = torch.randn(ROWS, WIDTH, device=device, requires_grad=True)
    head = torch.randn(vocabulary, WIDTH, device=device, requires_grad=True)
    target = torch.full((ROWS,), IGNORE)
    target[::one_in] = 0
    target = target.to(device)

    def step():
        hidden.grad = head.grad = None
        function(hidden, head, target, ROWS // one_in).backward()

    return step


def head_times(ways: Mapping[str, Callable], device: torch.device, vocabulary: int, one_in: int) -> dict[str, float]:
    """What such a step takes, in ms, for each of the ``ways`` to compute the loss: its name → function."""
    times = {}
    for name, function in ways.items():
        with full_size(device, share_valid(1 / one_in)):
            step = head_step(function, device, vocabulary, one_in)
            times[name] = time_step(step, warmup=1, steps=3, blocks=1, device=device).true_ms
    return times


def share_valid(share: float) -> Assumptions:
    """The sizes of results that depend on values where ``share`` of the labels is valid."""
    rest = 1 - share
    return Assumptions(densities={"ne": share, "ge": share, "gt": share, "eq": rest, "lt": rest, "le": rest}, density=share)
