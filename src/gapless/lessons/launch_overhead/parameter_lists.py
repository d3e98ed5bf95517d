"""Lesson 06: how the functions of lists of parameters are called: gradients cleared and clipped, weights averaged.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
from torch import nn

COMPARED = 100  # numbers of a tensor, of more about as many

# What is seen, in the words of the answer.
LEFT, WEIGHTS, MOMENTA, HELD = ("parameters with a gradient after each call", "weights", "momenta",
                                "gradients that were kept aside")
AVERAGES, PARAMETERS = "averages", "parameters"
TRACKED = "averages that require a gradient"
NORM, GRADIENTS, WITHOUT = "norm", "gradients", "parameters without a gradient"

_MOMENTUM = {"SGD": "momentum_buffer", "AdamW": "exp_avg"}  # optimizer → its name in the state


def some(tensor: torch.Tensor) -> torch.Tensor:
    """Not too many of its numbers; where they are few the tensor itself, as to look at it may be timed."""
    number = tensor.numel()
    return tensor if number <= COMPARED else tensor.detach().flatten()[::-(-number // COMPARED)]


# -- clear_grads -----------------------------------------------------------------------------------


def ask_clear_grads(function, given, device):
    """Steps of an optimizer, each with those parameters in its loss that ``used`` names. ``earlier``: those with a gradient
    before the first; ``frozen``: those that are trained no longer; ``held``: something holds on to the gradients."""
    options, coefficients = given.options, given.inputs["coefficients"]
    parameters = [nn.Parameter(weight) for weight in given.inputs["weights"]]
    for place in options["earlier"]:
        parameters[place].grad = coefficients[place].clone()
    for place in options["frozen"]:
        parameters[place].requires_grad_(False)
    optimizer = getattr(torch.optim, options["optimizer"])(parameters, **options["settings"]) if parameters else None
    left, held = [], []
    yield
    for used in options["used"]:
        function(iter(parameters) if options["iterator"] else list(parameters))
        left.append([parameter.grad is not None for parameter in parameters])
        if used:
            sum((parameters[place] * coefficients[place]).sum() for place in used).backward()
        if options["held"]:
            held += [parameter.grad for parameter in parameters if parameter.grad is not None]
        if optimizer is not None:
            optimizer.step()
    yield
    name = _MOMENTUM[options["optimizer"]]
    momenta = [optimizer.state.get(parameter, {}).get(name) for parameter in parameters]
    return {LEFT: [sum(each) for each in left], WEIGHTS: [some(parameter) for parameter in parameters],
            MOMENTA: [None if momentum is None else some(momentum) for momentum in momenta],
            HELD: [some(grad) for grad in held]}


# -- update_average --------------------------------------------------------------------------------


def ask_update_average(function, given, device):
    """Averages after some updates, while the parameters become smaller."""
    options = given.options
    averages = given.inputs["averages"]
    parameters = [nn.Parameter(each) for each in given.inputs["parameters"]]
    yield
    for step in range(options["steps"]):
        function(list(averages), iter(parameters) if options["iterator"] else list(parameters), options["decay"])
        if step + 1 < options["steps"]:
            with torch.no_grad():
                for parameter in parameters:
                    parameter.mul_(0.5)
    yield
    return {TRACKED: sum(average.requires_grad for average in averages),
            AVERAGES: [some(average.detach()) for average in averages],
            PARAMETERS: [some(parameter) for parameter in parameters]}


# -- clip ------------------------------------------------------------------------------------------


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
