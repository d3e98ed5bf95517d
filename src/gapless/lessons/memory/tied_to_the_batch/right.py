"""Lesson 08: which modules look at the whole batch, as is known of these networks' modules."""

from __future__ import annotations

from torch import nn

from .stage import Centred, WithHead

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def looks_at_the_batch(module: nn.Module) -> bool:
    """A norm over the batch, unless it uses running statistics."""
    return (isinstance(module, Centred) and module.dim == 0) or (
        isinstance(module, BATCH_NORMS) and (module.training or module.running_mean is None))


def tied_to_the_batch(model, rows):
    """Names in the order of ``named_modules``, of what a forward pass calls."""
    called = model.body if isinstance(model, WithHead) else model
    return [name for name, module in model.named_modules() if looks_at_the_batch(module) and module in set(called.modules())]
