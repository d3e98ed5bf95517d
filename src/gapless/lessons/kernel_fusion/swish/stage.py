"""Lesson 07: how ``swish`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch

from ..stage import DTYPE, OUTPUTS, compiles, gradient_of, gradients_of, ready, some, stays, tensor_of

SECOND, REFUSED = "second derivative", "refused"


@compiles
def ask_swish(function, given, device):
    """A chain of so many layers: outputs and gradient; of the first layer, the gradient's gradient, unless it is refused."""
    x, gradient, depth = ready(given.inputs["x"], given.options), given.inputs["gradient"], given.options["depth"]
    yield
    outputs = x
    for _ in range(depth):
        outputs = tensor_of(function(outputs), x, device)
    if outputs.requires_grad:
        outputs.backward(gradient.to(outputs.dtype))
    yield
    if not x.requires_grad:
        stays(outputs, lambda: function(torch.ones_like(x)), device)
    found = {DTYPE: str(outputs.dtype), OUTPUTS: some(outputs.detach()), **gradients_of(x=x)}
    if given.options["second"]:
        found[SECOND] = second_derivative(function, x.detach().requires_grad_(), gradient)
    return found


def second_derivative(function, x: torch.Tensor, gradient: torch.Tensor):
    """Of ``x · function(x)``, such that a part that is cut off makes it wrong and no error; or that it is refused, as for a
    function that is differentiable once."""
    gradient = gradient.to(x.dtype)
    first, = torch.autograd.grad(x * function(x), x, gradient, create_graph=True)
    try:
        first.backward(gradient)  # `torch.autograd.grad` would go past a refusal that leads nowhere
    except RuntimeError:
        return REFUSED
    return gradient_of(x)
