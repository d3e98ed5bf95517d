"""Lesson 06: how ``capture_step`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from ....course.plain import Unusable
from ..stage import UNMEASURED

LOSSES, WEIGHTS = "losses", "weights"


def make_network(weights: list[torch.Tensor], dropout: float, device: torch.device) -> nn.Sequential:
    """Linear layers with these weights, no biases; ReLU and perhaps dropout between them."""
    layers: list[nn.Module] = []
    for weight in weights:
        layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=weight.dtype)
        layers += [layer, nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
    model = nn.Sequential(*layers[:len(layers) - (2 if dropout else 1)]).to(device)
    with torch.no_grad():
        for parameter, weight in zip(model.parameters(), weights):
            parameter.copy_(weight)
    return model


def ask_capture_step(function, given, device):
    """The losses of all batches, and the weights in the end. ``groups``: of parameters, each with half the learning rate of
    the one before."""
    options, inputs = given.options, given.inputs
    model = make_network(inputs["weights"], options["dropout"], device)
    parameters, count = list(model.parameters()), options["groups"]
    groups = [{"params": parameters[place::count], "lr": options["lr"] / 2**place} for place in range(count)]
    optimizer = torch.optim.Adam(groups, fused=True)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: options["decay"]**step)
    batches = list(zip(inputs["x"], inputs["y"]))
    step = function(model, optimizer, F.cross_entropy)
    if not callable(step):
        raise Unusable(f"it returned {'nothing' if step is None else f'a {type(step).__name__}'}, not the function "
                       "`step(x, y)`: is there a `return`?")
    losses = []

    def train(some: list) -> None:
        for x, y in some:
            losses.append(step(x, y))
            scheduler.step()

    train(batches[:UNMEASURED])
    yield
    train(batches[UNMEASURED:])
    yield
    return {LOSSES: [_loss(loss) for loss in losses],
            WEIGHTS: [parameter.detach().flatten() for parameter in model.parameters()]}


def _loss(loss):
    if isinstance(loss, torch.Tensor) and loss.numel() == 1:
        return loss.detach().flatten()[0]
    if type(loss) is float:
        return loss
    what = "nothing: is there a `return`?" if loss is None else f"a {type(loss).__name__}, not the batch's loss."
    raise Unusable(f"`step(x, y)` returned {what}")
