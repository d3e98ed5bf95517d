"""Lesson 06: how ``clip`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
from torch import nn

from ..stage import some

NORM, GRADIENTS, WITHOUT = "norm", "gradients", "parameters without a gradient"


def ask_clip(function, given, device):
    """The norm that comes back, and what the gradients are then."""
    options, parameters = given.options, []
    for place, grad in enumerate(given.inputs["grads"]):
        parameters.append(nn.Parameter(torch.zeros_like(grad)))
        if place not in options["without_gradient"]:
            parameters[-1].grad = grad
    yield
    norm = function(iter(parameters) if options["iterator"] else list(parameters), float(options["max_norm"]))
    yield
    return {NORM: norm.detach() if isinstance(norm, torch.Tensor) else norm,
            GRADIENTS: [some(parameter.grad) for parameter in parameters if parameter.grad is not None],
            WITHOUT: [place for place, parameter in enumerate(parameters) if parameter.grad is None]}
