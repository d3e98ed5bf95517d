"""Lesson 07: how ``gelu`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch

from ..stage import DTYPE, OUTPUTS, SECOND, compiles, gradients_of, ready, second_derivative, some, stays, tensor_of


@compiles
def ask_elementwise(function, given, device):
    """What ``function`` makes of ``x``, and the gradient that comes back, where one is wanted; the gradient's gradient,
    unless it is refused."""
    x = ready(given.inputs["x"], given.options)
    yield
    outputs = tensor_of(function(x), x, device)
    if outputs.requires_grad:
        outputs.backward(given.inputs["gradient"].to(outputs.dtype))
    yield
    if not x.requires_grad:
        stays(outputs, lambda: function(torch.ones_like(x)), device)
    found = {DTYPE: str(outputs.dtype), OUTPUTS: some(outputs.detach()), **gradients_of(x=x)}
    if given.options.get("second"):
        found[SECOND] = second_derivative(function, x, given.inputs["gradient"])
    return found
