"""Lesson 06: how ``clear_grads`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
from torch import nn

from ....course.plain import same_objects
from ....vgpu import host_clock
from ..stage import some

# What is seen, in the words of the answer.
LEFT, WEIGHTS, MOMENTA, HELD, FROZEN = ("parameters with a gradient after each call", "weights", "momenta",
                                        "gradients that were kept aside", "frozen parameters")
_MOMENTUM = {"SGD": "momentum_buffer", "AdamW": "exp_avg"}  # optimizer → its name in the state


def ask_clear_grads(function, given, device):
    """Steps of an optimizer, each with those parameters in its loss that ``used`` names. ``earlier``: those with a gradient
    before the first; ``frozen``: those that are trained no longer; ``held``: something holds on to the gradients."""
    options, coefficients = given.options, given.inputs["coefficients"]
    parameters = [nn.Parameter(weight) for weight in given.inputs["weights"]]
    for place, grad in zip(options["earlier"], given.inputs["earlier"]):
        parameters[place].grad = grad
    for place in options["frozen"]:
        parameters[place].requires_grad_(False)
    optimizer = getattr(torch.optim, options["optimizer"])(parameters, **options["settings"]) if parameters else None
    left, held, passed = [], list(given.inputs["earlier"]), list(parameters)
    yield
    for used in options["used"]:
        function(iter(parameters) if options["iterator"] else passed)
        left.append([parameter.grad is not None for parameter in parameters])
        if used:
            sum((parameters[place] * coefficients[place]).sum() for place in used).backward()
        if options["held"]:
            held += [parameter.grad for parameter in parameters if parameter.grad is not None]
        if optimizer is not None:
            optimizer.step()
    yield
    with host_clock.uncounted():  # to look here may be timed
        same_objects("parameters", passed, parameters)
    name = _MOMENTUM[options["optimizer"]]
    momenta = [optimizer.state.get(parameter, {}).get(name) for parameter in parameters]
    return {LEFT: [sum(each) for each in left], WEIGHTS: [some(parameter) for parameter in parameters],
            MOMENTA: [None if momentum is None else some(momentum) for momentum in momenta],
            HELD: [some(grad) for grad in held], FROZEN: sum(not parameter.requires_grad for parameter in parameters)}
