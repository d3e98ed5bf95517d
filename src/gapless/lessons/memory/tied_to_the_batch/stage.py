"""Lesson 08: how ``tied_to_the_batch`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from ....course.plain import Unusable

NAMES, STATISTICS, MODE = "names", "statistics afterwards", "in training mode afterwards"


class Centred(nn.Module):
    """Features less their mean along ``dim``: 0 is the batch."""

    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return x - x.mean(self.dim, keepdim=True)


class Scaled(nn.Module):
    """Each row divided by its own norm."""

    def forward(self, x):
        return x / x.norm(dim=-1, keepdim=True).clamp(min=1e-3)


class WithHead(nn.Module):
    """A network with a head that its forward pass leaves out, as is often kept from a pretraining."""

    def __init__(self, body: nn.Module, head: nn.Module):
        super().__init__()
        self.body, self.head = body, head

    def forward(self, x):
        return self.body(x)


def _rows(*middle: nn.Module, width: int = 8) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, width), *middle, nn.Linear(width, 3))


def _images(*middle: nn.Module, width: int = 8) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, width, 3), *middle, nn.Flatten(), nn.Linear(width * 16, 3))


def _in_evaluation(model: nn.Module, *names: str) -> nn.Module:
    for name in names:
        model.get_submodule(name).eval()
    return model


def _frozen(model: nn.Module) -> nn.Module:
    return model.requires_grad_(False)


_WIDE = 40  # so many features that two masks of dropout do not fall alike by chance
# In words → (shape of a row, what makes the network).
NETWORKS: dict[str, tuple[tuple[int, ...], Callable[[], nn.Module]]] = {
    "BatchNorm, and LayerNorm": ((6,), lambda: _rows(nn.BatchNorm1d(8), nn.GELU(), nn.LayerNorm(8))),
    "no norm": ((6,), lambda: _rows(nn.GELU())),
    "one of two BatchNorms is in evaluation mode": (
        (6,), lambda: _in_evaluation(_rows(nn.BatchNorm1d(8), nn.Linear(8, 8), nn.BatchNorm1d(8)), "1")),
    "all in evaluation mode": ((6,), lambda: _in_evaluation(_rows(nn.BatchNorm1d(8)), "")),
    "BatchNorm without statistics, in evaluation mode": (
        (6,), lambda: _in_evaluation(_rows(nn.BatchNorm1d(8, track_running_stats=False)), "")),
    "dropout": ((6,), lambda: _rows(nn.Dropout(0.5), nn.GELU(), nn.Dropout(0.2), width=_WIDE)),
    "images, with GroupNorm and InstanceNorm": (
        (3, 6, 6), lambda: _images(nn.GroupNorm(2, 8), nn.ReLU(), nn.InstanceNorm2d(8, track_running_stats=True))),
    "images, BatchNorm and dropout": ((3, 6, 6), lambda: _images(nn.BatchNorm2d(_WIDE), nn.ReLU(), nn.Dropout2d(0.3),
                                                                   width=_WIDE)),
    "modules of one's own": ((6,), lambda: _rows(Centred(0), nn.GELU(), Scaled(), Centred(-1))),
    "a frozen BatchNorm, in training mode": ((6,), lambda: _frozen(_rows(nn.BatchNorm1d(8)))),
    "a BatchNorm that is never called": ((6,), lambda: WithHead(_rows(nn.GELU()), nn.BatchNorm1d(3))),
    "blocks within blocks": (
        (6,), lambda: nn.Sequential(nn.Sequential(_rows(nn.BatchNorm1d(8)), nn.Sequential(nn.BatchNorm1d(3))),
                                    nn.LayerNorm(3))),
}


def make_network(name: str, seed: int, device: torch.device) -> nn.Module:
    """The network of that name, its weights drawn from ``seed``. The random numbers of others stay as they are."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return NETWORKS[name][1]().to(device)


def ask_tied_to_the_batch(function, given, device):
    """The names, and what became of the network."""
    model = make_network(given.options["network"], given.options["seed"], device)
    yield
    names = function(model, given.inputs["rows"])
    yield
    if not isinstance(names, (list, tuple, set)) or not all(isinstance(name, str) for name in names):
        raise Unusable(f"it returned a {type(names).__name__}; a list of names, as `named_modules` has them, is wanted.")
    return {NAMES: sorted(names), MODE: {name or "the network": module.training for name, module in model.named_modules()},
            STATISTICS: [buffer.flatten() for buffer in model.buffers()]}
