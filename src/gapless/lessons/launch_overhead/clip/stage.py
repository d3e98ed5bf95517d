"""Lesson 06: how ``clip`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
from torch import nn

from ....course.plain import Unusable, same_objects
from ....vgpu import host_clock
from ..stage import in_bfloat16, some

NORM, GRADIENTS, WITHOUT = "norm", "gradients", "parameters without a gradient"
MOVED = "gradients in new memory"


def ask_clip(function, given, device):
    """The norm that comes back, and what the gradients are then. ``frozen``: those that are trained no longer, and whose
    gradient nobody has cleared; ``steps``: in each the parameters get other gradients, and the last one is looked at."""
    options = given.options
    grads = in_bfloat16(given.inputs["grads"], options["bfloat16"])
    each = len(grads) // options["steps"]
    parameters = [nn.Parameter(torch.zeros_like(grad), requires_grad=place not in options["frozen"])
                  for place, grad in enumerate(grads[:each])]

    def give_gradients(step: int) -> None:
        for place, (parameter, grad) in enumerate(zip(parameters, grads[step * each:])):
            parameter.grad = None if place in options["without_gradient"] else grad

    give_gradients(0)
    yield
    for step in range(options["steps"]):
        if step:
            give_gradients(step)
        passed = list(parameters)
        norm = function(iter(parameters) if options["iterator"] else passed, float(options["max_norm"]))
    yield
    with host_clock.uncounted():  # to look here may be timed
        same_objects("parameters", passed, parameters)
        moved = sum(parameter.grad is not None and parameter.grad.data_ptr() != grad.data_ptr()
                    for parameter, grad in zip(parameters, grads[-each:] if each else []))
    if not isinstance(norm, torch.Tensor) and all(parameter.grad is None for parameter in parameters):
        one = nn.Parameter(torch.zeros(1, device=device))
        one.grad = torch.ones_like(one)
        if isinstance(function([one], 1.0), torch.Tensor):
            raise Unusable(f"it returned {norm!r} if no parameter has a gradient, and a tensor if one has. Return a "
                           "tensor in both cases, here `torch.zeros(())`.")
    return {NORM: norm.detach() if isinstance(norm, torch.Tensor) else norm,
            MOVED: moved,
            GRADIENTS: [some(parameter.grad) for parameter in parameters if parameter.grad is not None],
            WITHOUT: [place for place, parameter in enumerate(parameters) if parameter.grad is None]}
