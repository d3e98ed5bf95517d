"""Lesson 07: how ``swish`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch

from ..stage import (
    DTYPE,
    OUTPUTS,
    REFUSED,
    SECOND,
    compiles,
    gradient_of,
    gradients_of,
    ready,
    second_derivative,
    some,
    stays,
    tensor_of,
)

IN_ORDER = "gradient of the first of two passes"
CHANGED = "gradient of an input that was changed after the forward pass"


@compiles
def ask_swish(function, given, device):
    """A chain of so many layers: outputs and gradient; of one layer, the gradient's gradient and late gradients, unless they
    are refused."""
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
        found[SECOND] = second_derivative(function, x, gradient)
        found |= late_gradients(function, x)
    return found


def late_gradients(function, x: torch.Tensor) -> dict:
    """Of two forward passes, whose backward passes run in the same order. The second pass's input is changed before, which
    autograd may notice: refused."""
    tensors = [each.detach().clone().requires_grad_() for each in (x, x + 1)]
    outputs = [function(each) for each in tensors]
    with torch.no_grad():
        tensors[1].add_(1)
    if not outputs[0].requires_grad:
        return dict(zip((IN_ORDER, CHANGED), map(gradient_of, tensors)))
    outputs[0].backward(torch.ones_like(x))
    try:
        outputs[1].backward(torch.ones_like(x))
    except Exception:  # an error of any kind is a refusal
        return {IN_ORDER: gradient_of(tensors[0]), CHANGED: REFUSED}
    return dict(zip((IN_ORDER, CHANGED), map(gradient_of, tensors)))
