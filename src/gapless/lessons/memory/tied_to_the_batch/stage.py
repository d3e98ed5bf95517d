"""Lesson 08: how ``tied_to_the_batch`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from ....course.plain import Unusable, hooks_on
from ..stage import left_on, sampled

NAMES, STATISTICS, MODE = "names", "statistics afterwards", "in training mode afterwards"
DRAWN, HOOKS = "random numbers drawn or seeded again", "hooks left on the network"
WEIGHTS = "weights afterwards"


class Centred(nn.Module):
    """Features less their mean along ``dim``, or a ``share`` of it: 0 is the batch."""

    def __init__(self, dim: int, share: float = 1.0):
        super().__init__()
        self.dim, self.share = dim, share

    def forward(self, x):
        return x - self.share * x.mean(self.dim, keepdim=True)


class Twice(nn.Module):
    """Calls a module, and calls it again with the result."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(self.module(x))


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


_EVALUATING = ", evaluating"  # behind a module's name: it is in evaluation mode
# Name → what makes the module, for so many features of rows.
OF_ROWS: dict[str, Callable[[int], nn.Module]] = {
    "batch norm": nn.BatchNorm1d, "layer norm": nn.LayerNorm, "GELU": lambda width: nn.GELU(),
    "batch norm without statistics": lambda width: nn.BatchNorm1d(width, track_running_stats=False),
    "linear": lambda width: nn.Linear(width, width), "dropout": lambda width: nn.Dropout(0.4),
    "centred by the batch": lambda width: Centred(0), "centred by itself": lambda width: Centred(-1),
    "scaled": lambda width: Scaled(), "centred a little by the batch": lambda width: Centred(0, 0.01),
    "batch norm, twice": lambda width: Twice(nn.BatchNorm1d(width)),
}
# The same, for so many channels of images.
OF_IMAGES: dict[str, Callable[[int], nn.Module]] = {
    "batch norm": nn.BatchNorm2d, "group norm": lambda width: nn.GroupNorm(2, width), "GELU": lambda width: nn.GELU(),
    "instance norm": lambda width: nn.InstanceNorm2d(width, track_running_stats=True),
    "linear": lambda width: nn.Conv2d(width, width, 1), "dropout": lambda width: nn.Dropout2d(0.3),
}
_WIDTH = 40  # so many features that two masks of dropout do not fall alike by chance


def _made(of: dict[str, Callable[[int], nn.Module]], names: list) -> list[nn.Module]:
    """The modules of these names; a list among them is a block."""
    return [nn.Sequential(*_made(of, each)) if isinstance(each, list)
            else of[each.removesuffix(_EVALUATING)](_WIDTH).train(not each.endswith(_EVALUATING)) for each in names]


def make_network(options: dict, device: torch.device) -> nn.Module:
    """The network with the case's modules, its weights drawn from its seed. ``ending``: what comes behind its last layer;
    ``uncalled``: the head, where the forward pass leaves one out. The random numbers of others stay as they are."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options["seed"])
        if options["images"]:
            first, made, last = nn.Conv2d(3, _WIDTH, 3), _made(OF_IMAGES, options["modules"]), nn.Linear(_WIDTH * 16, 3)
            model = nn.Sequential(first, *made, nn.Flatten(), last)
        else:
            model = nn.Sequential(nn.Linear(6, _WIDTH), *_made(OF_ROWS, options["modules"]), nn.Linear(_WIDTH, 3),
                                  *_made(OF_ROWS, options["ending"]))
        if options["uncalled"]:
            model = WithHead(model, *_made(OF_ROWS, [options["uncalled"]]))
        if options["frozen"]:
            model.requires_grad_(False)
        return (model.eval() if options["evaluating"] else model).to(device)


def ask_tied_to_the_batch(function, given, device):
    """The names, and what became of the network and of the process's random numbers."""
    options = given.options
    model = make_network(options, device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options["seed"])
        state, of_others = torch.get_rng_state(), _of_others()
        yield
        names = function(model, given.inputs["rows"])
        yield
        drawn = not torch.equal(torch.get_rng_state(), state) or _of_others() != of_others
    if not isinstance(names, (list, tuple, set)) or not all(isinstance(name, str) for name in names):
        raise Unusable(f"it returned a {type(names).__name__}, not a list of names as in `named_modules`.")
    return {NAMES: sorted(names), DRAWN: drawn,
            HOOKS: hooks_on(model), **left_on(list(model.parameters())),
            WEIGHTS: [sampled(parameter) for parameter in model.parameters()],
            MODE: {name or "the network": module.training for name, module in model.named_modules()},
            STATISTICS: [buffer.flatten() for buffer in model.buffers()]}


def _of_others() -> tuple:
    """The state of Python's and NumPy's random numbers."""
    return random.getstate(), np.random.get_state()[1].tobytes()
