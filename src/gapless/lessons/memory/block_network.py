"""Lesson 08: a network whose ``forward`` is written in the exercise's cell, and how that exercise is called.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import nn

from ...course.plain import Unusable
from .given_weights import sampled, with_weights

CLASSES = 4
LOSSES, STATISTICS, CHANGES, EVALUATED = (
    "losses", "the norms' statistics", "changes of the weights", "outputs in evaluation")
_LEARNING_RATE = 0.5


class Block(nn.Module):
    """Parts without a ``forward``, in the order in which they are used; GELU comes behind the norm."""

    def __init__(self, before: int, after: int, resize: nn.Module, *, dropout: float, momentum: float | None,
                 tracking: bool):
        super().__init__()
        self.conv = nn.Conv2d(before, after, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(after, momentum=momentum, track_running_stats=tracking)
        self.drop = nn.Dropout(dropout)
        self.resize = resize


class BlockNetwork(nn.Module):
    """Images of 3×H×W, H and W multiples of 4 → a class for each pixel: two blocks that halve the sides, two that double
    them, and a head. ``momentum`` and ``tracking`` are the norms'."""

    def __init__(self, width: int, *, dropout: float = 0.1, momentum: float | None = 0.1, tracking: bool = True):
        super().__init__()
        sizes = [(3, width), (width, 2 * width), (2 * width, 2 * width), (2 * width, width)]
        self.blocks = nn.ModuleList(
            Block(before, after, nn.AvgPool2d(2) if place < 2 else nn.Upsample(scale_factor=2, mode="bilinear"),
                  dropout=dropout, momentum=momentum, tracking=tracking)
            for place, (before, after) in enumerate(sizes))
        self.head = nn.Conv2d(width, CLASSES, 1)


def ask_checkpointed(function, given, device):
    """Some training steps of the forward pass that ``function`` makes: losses, what the weights and the norms' statistics
    have become, and what the network computes in evaluation."""
    options = given.options
    model = with_weights(lambda: BlockNetwork(options["width"], **options["network"]), given.inputs["weights"], device)
    for name in options["frozen"]:
        model.get_submodule(name).requires_grad_(False)
    for name in options["in_evaluation"]:
        model.get_submodule(name).eval()
    before = [sampled(parameter).clone() for parameter in model.parameters()]
    batches = list(zip(given.inputs["images"], given.inputs["labels"]))
    passes, losses = options["passes"], []
    yield
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), _hosts_own_numbers(device):
        torch.manual_seed(options["seed"])
        forward = function(model)
        if not callable(forward) or forward is model:  # the model has no forward pass of its own
            raise Unusable(f"it returned a {type(forward).__name__}; the function `forward(images)` is wanted.")
        for start in range(0, len(batches), passes):
            losses.append(_step(model, forward, batches[start:start + passes], options["by_grad"]))
    yield
    found = {LOSSES: losses, CHANGES: [sampled(parameter) - old for parameter, old in zip(model.parameters(), before)],
             STATISTICS: {name: buffer.flatten() for name, buffer in model.named_buffers()}}
    model.eval()
    with torch.no_grad():
        return found | {EVALUATED: sampled(forward(given.inputs["images"][0]))}


@contextmanager
def _hosts_own_numbers(device: torch.device) -> Iterator[None]:
    """Inside, ``torch.get_rng_state`` and its counterpart are the state of random numbers that nobody draws: in a notebook
    the virtual GPU draws the host's, and who puts back the host's state alone would be right there and nowhere else."""
    if device.type != "vgpu":
        yield
        return
    hosts, kept = torch.Generator(), (torch.get_rng_state, torch.set_rng_state)
    torch.get_rng_state = torch.random.get_rng_state = hosts.get_state
    torch.set_rng_state = torch.random.set_rng_state = hosts.set_state
    try:
        yield
    finally:
        torch.get_rng_state, torch.set_rng_state = torch.random.get_rng_state, torch.random.set_rng_state = kept


def _step(model: nn.Module, forward, batches: list, by_grad: bool) -> torch.Tensor:
    """A step of SGD on the sum of the batches' losses, which it returns. ``by_grad``: gradients from ``torch.autograd.grad``
    in place of ``backward``."""
    loss = torch.stack([F.cross_entropy(forward(images), labels) for images, labels in batches]).sum()
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if by_grad:
        gradients = torch.autograd.grad(loss, learning)
    else:
        loss.backward()
        gradients = [parameter.grad for parameter in learning]
    with torch.no_grad():
        for parameter, gradient in zip(learning, gradients):
            if gradient is not None:
                parameter.sub_(gradient, alpha=_LEARNING_RATE)
    model.zero_grad()
    return loss.detach()
