"""Lesson 08: how ``checkpointed`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import nn

from ....course.plain import Unusable
from ..stage import BlockNetwork, sampled, with_weights

LOSSES, STATISTICS, CHANGES, EVALUATED, OF_IMAGES = (
    "losses", "the norms' statistics", "changes of the weights", "outputs in evaluation", "the images' gradients")
_LEARNING_RATE = 0.5


def ask_checkpointed(function, given, device):
    """Some training steps of the forward pass that ``function`` makes: losses, what the weights and the norms' statistics
    have become, what the network computes in evaluation, and the gradients of images that require one."""
    options = given.options
    model = with_weights(lambda: BlockNetwork(options["width"], **options["network"]), given.inputs["weights"], device)
    model.to(given.inputs["weights"][0].dtype)  # the norms' statistics
    for name in options["frozen"]:
        model.get_submodule(name).requires_grad_(False)
    for name in options["in_evaluation"]:
        model.get_submodule(name).eval()
    before = [sampled(parameter).clone() for parameter in model.parameters()]
    statistics = dict(model.named_buffers())  # who holds them sees them change
    images = [each.detach().requires_grad_() if options["images_learn"] else each for each in given.inputs["images"]]
    batches = list(zip(images, given.inputs["labels"]))
    passes, losses = options["passes"], []
    yield
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), _hosts_own_numbers(device):
        torch.manual_seed(options["seed"])
        forward = function(model)
        if not callable(forward) or forward is model:  # the model has no forward pass of its own
            raise Unusable(f"it returned a {type(forward).__name__}, not the function `forward(images)`.")
        for start in range(0, len(batches), passes):
            losses.append(_step(model, forward, batches[start:start + passes], options["by_grad"]))
    yield
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), torch.no_grad():
        torch.manual_seed(options["seed"])
        forward(given.inputs["images"][0])  # in training mode: the norms' statistics change
    found = {LOSSES: losses, CHANGES: [sampled(parameter) - old for parameter, old in zip(model.parameters(), before)],
             OF_IMAGES: [None if each.grad is None else sampled(each.grad) for each in images],
             STATISTICS: {name: buffer.flatten() for name, buffer in statistics.items()}}
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
