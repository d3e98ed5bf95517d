"""Lesson 05: what an exercise's cell finds defined, and how each exercise's function is called.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from ...course.plain import Unusable
from .norm_models import make_network

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def names() -> dict:
    """Name → what it stands for."""
    return {"torch": torch, "nn": nn, "F": F, "CONVOLUTIONS": CONVOLUTIONS}


_LEARNING_RATE = 0.1


def ask_without_bias(function, given, device):
    """What the model computes in both modes, before a step and after it; its gradients, and the parameters that it has."""
    images = given.inputs["images"]
    model = make_network(given.options["network"], given.options["seed"], device, images.dtype)
    model = function(model, images)
    if not isinstance(model, nn.Module):
        raise Unusable(f"it returned a {type(model).__name__}; the model is wanted: is there a `return`?")
    found = {"parameters": {name: list(parameter.shape) for name, parameter in model.named_parameters()},
             "in training mode": model.training}
    model.eval()
    with torch.no_grad():
        found["outputs in evaluation"] = _joined(model(images))
    model.train()
    model.zero_grad()
    yield
    outputs = _joined(model(images))
    outputs.square().mean().backward()
    yield
    found["outputs in training"] = outputs.detach()
    found["gradients"] = {name: parameter.grad.detach().clone() for name, parameter in model.named_parameters()
                          if parameter.grad is not None}
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=_LEARNING_RATE)
        found["outputs in training after a step"] = _joined(model(images))
        model.eval()
        found["outputs in evaluation after a step"] = _joined(model(images))
    return found


def _joined(outputs) -> torch.Tensor:
    """All outputs of a model, in a row."""
    return torch.cat([each.flatten() for each in (outputs if isinstance(outputs, tuple) else (outputs,))])
