"""Lesson 06: how ``capture_step`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from ....course.plain import Unusable
from ..stage import UNMEASURED

LOSSES, WEIGHTS, BUFFERS = "losses", "weights", "buffers"


def make_network(weights: list[torch.Tensor], dropout: float, device: torch.device, norms: bool = False) -> nn.Sequential:
    """Linear layers with these weights, no biases; ReLU between them, and perhaps batch norms and dropout."""
    layers: list[nn.Module] = []
    for weight in weights:
        norm, drop = [nn.BatchNorm1d(weight.shape[0])] if norms else [], [nn.Dropout(dropout)] if dropout else []
        between = [*norm, nn.ReLU(), *drop]
        layers += [nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=weight.dtype), *between]
    model = nn.Sequential(*layers[:-len(between)]).to(device)
    linear = [layer.weight for layer in model if isinstance(layer, nn.Linear)]
    with torch.no_grad():
        for parameter, weight in zip(linear, weights):
            parameter.copy_(weight)
    return model


def ask_capture_step(function, given, device):
    """The losses of all batches, and the weights and buffers in the end. ``groups``: of parameters, each with half the
    learning rate of the one before; ``another``: a network of other weights is trained before, with batches of the same
    shapes."""
    options, inputs = given.options, given.inputs
    batches, losses, models = list(zip(inputs["x"], inputs["y"])), [], []

    def training(weights: list[torch.Tensor]):
        """A function that trains a new network on some batches."""
        model = make_network(weights, options["dropout"], device, options["norms"])
        parameters, count = list(model.parameters()), options["groups"]
        groups = [{"params": parameters[place::count], "lr": options["lr"] / 2**place} for place in range(count)]
        optimizer = torch.optim.Adam(groups, fused=True)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: options["decay"]**step)
        step = function(model, optimizer, getattr(F, options["loss"]))
        if not callable(step):
            raise Unusable(f"it returned {'nothing' if step is None else f'a {type(step).__name__}'}, not the function "
                           "`step(x, y)`: is there a `return`?")
        models.append(model)

        def train(some: list) -> None:
            for x, y in some:
                losses.append(step(x, y))
                scheduler.step()

        return train

    if options["another"]:
        training([weight.flip(0) for weight in inputs["weights"]])(batches)
    train = training(inputs["weights"])
    train(batches[:UNMEASURED])
    yield
    train(batches[UNMEASURED:])
    yield
    return {LOSSES: [_loss(loss) for loss in losses],
            WEIGHTS: [parameter.detach().flatten() for model in models for parameter in model.parameters()],
            BUFFERS: [buffer.flatten() for model in models for buffer in model.buffers()]}


def _loss(loss):
    if isinstance(loss, torch.Tensor) and loss.numel() == 1:
        return loss.detach().flatten()[0]
    if type(loss) is float:
        return loss
    what = "nothing: is there a `return`?" if loss is None else f"a {type(loss).__name__}, not the batch's loss."
    raise Unusable(f"`step(x, y)` returned {what}")
