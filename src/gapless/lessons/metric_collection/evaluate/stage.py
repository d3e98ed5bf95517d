"""Lesson 03: how ``evaluate`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from ....course.plain import Unusable
from ..stage import quietly


class _Loader:
    """As much of a DataLoader as an evaluation needs: its length, and its batches in order, any number of times."""

    def __init__(self, batches: list):
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator:
        return iter(self._batches)


class _Network(nn.Flatten):
    """No layers: the images are the logits. Its one parameter is there to be left alone."""

    def __init__(self, device: torch.device):
        super().__init__()
        self.unused = nn.Parameter(torch.empty((), device=device))


@quietly
def ask_evaluate(function, given, device):
    """Four averages over a loader, of a network of no layers: its images are the logits. After a call on another loader,
    unless it is timed."""
    batches = [(logits[:, :, None, None], target) for logits, target in zip(given.inputs["images"], given.inputs["targets"])]
    model, gradients = _Network(device), []
    if given.options.get("called_before"):
        hook = model.register_forward_hook(lambda *_: gradients.append(torch.is_grad_enabled()))
        before = [(images.flip(1), target) for images, target in batches[:2]]
        function(model, _Loader(before), device)
        hook.remove()
        if len(gradients) > len(before):
            raise Unusable(f"it called the network {len(gradients)} times for {len(before)} batches. The forward pass is "
                           "most of an evaluation's time. Call it once for each batch.")
    yield
    found = function(model, _Loader(batches), device)
    yield
    if any(gradients):
        raise Unusable("it called the network with gradients on: then each batch's activations are kept for a backward pass "
                       "that never comes. Call it inside `torch.no_grad()`, as the slow function does.")
    if not model.training:
        raise Unusable("it left the model in evaluation mode, and the caller may go on training it. Leave the mode as it "
                       "is, or put it back.")
    if not model.unused.requires_grad:
        raise Unusable("it left the model's parameters without `requires_grad`, and the caller may go on training it. Turn "
                       "gradients off with `torch.no_grad()`, not in the parameters.")
    return found
