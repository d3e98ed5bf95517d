"""Lesson 08: how ``budget`` is called.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch

from ...course.plain import Unusable
from .budget_networks import make_network, make_optimizer

EXACT = ("parameters", "buffers", "gradients")  # the other parts may be off by the exercise's tolerance
MODE = "the model's mode afterwards"
BEGUN, DONE = "begun", "done"


def ask_budget(function, given, device):
    """What ``function`` says that a training step of the network takes."""
    options = given.options
    model, batch = make_network(options, device)
    optimizer = make_optimizer(options, model)
    dtype = getattr(torch, options["autocast"]) if options["autocast"] else None
    # A block that is only a little too large is handed out whole: what others have left would make a difference.
    torch.get_device_module(device).empty_cache()
    yield
    given.note(BEGUN)
    said = function(model, batch, optimizer, dtype)
    given.note(DONE)
    yield
    if not isinstance(said, dict):
        raise Unusable(f"it returned a {type(said).__name__}; a dict from the name of each of the six parts to its bytes is "
                       "wanted: is there a `return`?")
    modes = {module.training for module in model.modules()}
    return {**{name: _number(name, value) for name, value in said.items()},
            MODE: "training" if modes == {True} else "evaluation" if modes == {False} else "mixed"}


def _number(name: str, value):
    """Raises Unusable where it is no number."""
    if isinstance(value, torch.Tensor) and value.device.type != "cpu":
        raise Unusable(f"{name!r} is a tensor on the device; a number of bytes is wanted, such as `nbytes` gives.")
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unusable(f"{name!r} is a {type(value).__name__}; a number of bytes is wanted.")
    return round(value) if name in EXACT else float(value)
