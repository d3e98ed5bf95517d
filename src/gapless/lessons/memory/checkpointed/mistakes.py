"""Lesson 08: the usual wrong ways to checkpoint, and what to say of each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from ....course.mistakes import Mistake


def _cheap(block, x):
    return block.resize(block.drop(F.gelu(block.norm(x))))


@contextmanager
def on_copies(norm: nn.Module) -> Iterator[None]:
    """Inside, the norm writes into copies of its statistics."""
    buffers = dict(norm.named_buffers())
    for name, buffer in buffers.items():
        setattr(norm, name, buffer.clone())
    try:
        yield
    finally:
        for name, buffer in buffers.items():
            setattr(norm, name, buffer)


@contextmanager
def _no_momentum(norm: nn.Module) -> Iterator[None]:
    before, norm.momentum = norm.momentum, 0.0
    try:
        yield
    finally:
        norm.momentum = before


def _as_it_is(norm: nn.Module):
    return nullcontext()


def _wrong(cheap: Callable = _cheap, first: Callable = _as_it_is, again: Callable = on_copies, whole: bool = False,
           prepare: Callable = lambda model: None, use_reentrant: bool = False, **options) -> Callable:
    """A forward pass with ``cheap(block, x)`` checkpointed, with the convolution where ``whole``; ``first(norm)`` and
    ``again(norm)`` are around its two passes."""
    def checkpointed(model):
        prepare(model)

        def part(block, x):
            return cheap(block, block.conv(x) if whole else x)

        def forward(images):
            x = images
            for block in model.blocks:
                contexts = {} if use_reentrant else {
                    "context_fn": lambda norm=block.norm: (first(norm), again(norm))}
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # that no input requires a gradient
                    x = checkpoint(part, block, x if whole else block.conv(x), use_reentrant=use_reentrant, **contexts,
                                   **options)
            return model.head(x)

        return forward

    return checkpointed


def _half_momentum(model: nn.Module) -> None:
    for block in model.blocks:
        if block.norm.momentum is not None:
            block.norm.momentum = 1 - (1 - block.norm.momentum) ** 0.5


def _without_drop(block, x):
    return block.resize(F.gelu(block.norm(x)))


def _late_drop(block, x):
    return block.drop(block.resize(F.gelu(block.norm(x))))


def _without_norm(block, x):
    return block.resize(block.drop(F.gelu(x)))


def _without_gelu(block, x):
    return block.resize(block.drop(block.norm(x)))


def _relu(block, x):
    return block.resize(block.drop(F.relu(block.norm(x))))


def _no_statistics(block, x):
    norm = block.norm
    x = F.batch_norm(x, None, None, norm.weight, norm.bias, True, 0.0, norm.eps)
    return block.resize(block.drop(F.gelu(x)))


def _detached(model):
    def forward(images):
        x = images
        for block in model.blocks:
            x = block.resize(block.drop(F.gelu(block.norm(block.conv(x.detach())))))
        return model.head(x)

    return forward


def _frozen_detached(model):
    right = _wrong()(model)

    def forward(images):
        if all(any(each.requires_grad for each in block.parameters()) for block in model.blocks):
            return right(images)
        x = images
        for block in model.blocks:
            x = block.conv(x)
            learns = any(each.requires_grad for each in block.parameters())
            x = _cheap(block, x if learns else x.detach())
        return model.head(x)

    return forward


def _evaluation_throughout(model):
    for block in model.blocks:
        block.norm.eval()
    return _wrong()(model)


_TWICE = ("A checkpointed part runs twice. In training mode a norm changes its running mean and variance, and counts a "
          "batch, in each run. Let the second run write elsewhere: `context_fn` of `checkpoint` gives a context for each "
          "run, and in the second the norm can use copies of its buffers. Restore the buffers in a `finally`, because "
          "`checkpoint` leaves the second run with an exception as soon as it has all it needs.")
_REENTRANT = ("With `use_reentrant=True` the checkpointed part gets gradients only if one of its *inputs* requires one. "
              "Behind an image or a frozen layer, the weights inside get none. Use `use_reentrant=False`.")
CHECKPOINT_MISTAKES = (
    Mistake(_wrong(again=_as_it_is), _TWICE),
    Mistake(_wrong(again=_as_it_is, whole=True), _TWICE),
    Mistake(_wrong(preserve_rng_state=False), (
        "The second run draws another dropout mask than the first, so the gradients belong to another network than the "
        "loss. By default `checkpoint` restores the state of the random numbers: leave out `preserve_rng_state=False`.")),
    Mistake(_wrong(use_reentrant=True), _REENTRANT + " And " + _TWICE[0].lower() + _TWICE[1:]),
    Mistake(_wrong(use_reentrant=True, whole=True), _REENTRANT + " And " + _TWICE[0].lower() + _TWICE[1:]),
    Mistake(_wrong(again=_no_momentum), (
        "A momentum of 0 keeps the running mean and variance in the second run. But `num_batches_tracked` still counts "
        "twice, and a norm with `momentum=None` divides by it. Give the norm copies of *all* its buffers.")),
    Mistake(_wrong(prepare=_half_momentum, again=_as_it_is), (
        "With another momentum two updates have the effect of one. But `num_batches_tracked` still counts double, and a "
        "forward pass without a backward pass updates too little. Let the second run write into copies.")),
    Mistake(_wrong(first=on_copies), (
        "Now neither run updates the norms' statistics. The first run has to.")),
    Mistake(_wrong(first=on_copies, again=_as_it_is), (
        "The second run updates the norms' statistics. Without a backward pass there is no second run, and several "
        "forward passes update in the wrong order. The first run has to do it.")),
    Mistake(_wrong(cheap=_no_statistics), (
        "The norms' statistics are never updated, and not used in evaluation mode. Call the norm itself.")),
    Mistake(_wrong(cheap=_without_drop), "Dropout was left out."),
    Mistake(_wrong(cheap=_late_drop), (
        "You apply dropout after the resizing, which makes another network. Keep the order.")),
    Mistake(_wrong(cheap=_without_norm), "The norm was left out."),
    Mistake(_wrong(cheap=_without_gelu), "GELU was left out."),
    Mistake(_wrong(cheap=_relu), "That is another activation: the network has GELU."),
    Mistake(_detached, (
        "Under `torch.no_grad()`, and after `detach()`, nothing is saved, and no gradient passes. So all earlier layers "
        "stop learning. `checkpoint` computes the part once more when the gradient comes.")),
    Mistake(_frozen_detached, (
        "No gradient passes a frozen block, so the blocks before it stop learning. Its own weights need no gradient. "
        "Its input does. Treat it like the others.")),
    Mistake(_evaluation_throughout, (
        "The norms are always in evaluation mode, and no longer normalise by the batch. Do not change the mode.")),
)
