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
    """As much of a DataLoader as an evaluation needs: its length, and its batches, any number of times; like one that
    shuffles, in another order each time."""

    def __init__(self, batches: list):
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator:
        batches, self._batches = self._batches, self._batches[::-1]
        return iter(batches)


class _Network(nn.Flatten):
    """No layers: the images are the logits. Its parameters, its parts and their modes are there to be left alone.
    ``gradients``: of each forward pass, whether they were on."""

    def __init__(self, device: torch.device, training: bool):
        super().__init__()
        self.unused = nn.Parameter(torch.empty((), device=device))
        self.frozen = nn.Parameter(torch.empty((), device=device), requires_grad=False)
        self.part = nn.Identity()
        self.train(training)
        self.part.train(not training)
        self.gradients: list[bool] = []

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.gradients.append(torch.is_grad_enabled())
        return super().forward(images)


@quietly
def ask_evaluate(function, given, device):
    """Four averages over a loader, of a network of no layers: its images are the logits. After a call on another loader,
    unless it is timed."""
    batches = [(logits[:, :, None, None], target) for logits, target in zip(given.inputs["images"], given.inputs["targets"])]
    model = _Network(device, training=not given.options.get("called_before"))
    modes = [part.training for part in model.modules()]
    if given.options.get("called_before"):
        before = [(images.flip(1), target) for images, target in batches[:2]]
        function(model, _Loader(before), device)
        if len(model.gradients) != len(before):
            raise Unusable(f"it called the network {len(model.gradients)} times for {len(before)} batches. The forward pass "
                           "is most of an evaluation's time. Call it once for each batch.")
    yield
    found = function(model, _Loader(batches), device)
    yield
    if any(model.gradients):
        raise Unusable("it called the network with gradients on: then each batch's activations are kept for a backward pass "
                       "that never comes. Call it inside `torch.no_grad()`, as the slow function does.")
    if modes[0] and not model.training:
        raise Unusable("it left the model in evaluation mode, and the caller may go on training it. Leave the mode as it "
                       "is, or put it back.")
    if [part.training for part in model.modules()] != modes:
        raise Unusable("it left the model, or a part of it, in another mode (training or evaluation) than before, and the "
                       "caller may go on with it. Leave the modes as they are, or put each module's own back.")
    if not model.unused.requires_grad:
        raise Unusable("it left the model's parameters without `requires_grad`, and the caller may go on training it. Turn "
                       "gradients off with `torch.no_grad()`, not in the parameters.")
    if model.frozen.requires_grad:
        raise Unusable("it set `requires_grad` of a parameter that was frozen. Turn gradients off with `torch.no_grad()`, "
                       "not in the parameters.")
    return found
