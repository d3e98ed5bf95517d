"""Lesson 07: how ``gelu`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from ..stage import DTYPE, OUTPUTS, compiles, gradients_of, some, tensor_of


@compiles
def ask_elementwise(function, given, device):
    """What ``function`` makes of ``x``, and the gradient that comes back."""
    x = given.inputs["x"].detach().requires_grad_()
    yield
    outputs = tensor_of(function(x), x, device)
    if outputs.requires_grad:
        outputs.backward(given.inputs["gradient"].to(outputs.dtype))
    yield
    return {DTYPE: str(outputs.dtype), OUTPUTS: some(outputs.detach()), **gradients_of(x=x)}
