"""Lesson 05: how ``lars_step`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
from torch import nn

from ....course.plain import Unusable, same_objects

COMPARED = 200  # numbers of a tensor, of more about as many
WEIGHTS, MOMENTA = "weights", "momenta"


def ask_lars_step(function, given, device):
    """Weights and momenta after ``steps`` on the same gradients."""
    options = given.options
    momenta = given.inputs[MOMENTA]
    params = [nn.Parameter(weight) for weight in given.inputs[WEIGHTS]]
    for place, (param, grad) in enumerate(zip(params, given.inputs["grads"])):
        param.grad = None if place in options["without_gradient"] else grad
    numbers = [options[name] for name in ("lr", "momentum", "weight_decay", "trust")]
    lists = list(params), list(momenta)
    before = [tensor.data_ptr() for tensor in (*params, *momenta)]
    yield
    for _ in range(options["steps"]):
        function(*lists, *numbers)
    yield
    same_objects("params", lists[0], params)
    same_objects("momenta", lists[1], momenta)
    if [tensor.data_ptr() for tensor in (*params, *momenta)] != before:
        raise Unusable("it has given a parameter or a momentum other memory (`.data = …`). Write into the tensor itself, "
                       "with an operator in place: others may hold a view of it.")
    return {WEIGHTS: [_some(param) for param in params], MOMENTA: [_some(moment) for moment in momenta]}


def _some(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().flatten()[::max(1, tensor.numel() // COMPARED)]
