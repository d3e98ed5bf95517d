"""Lesson 07: how ``head_loss`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from ..stage import DTYPE, LOSS, compiles, gradients_of, number_of, ready


@compiles
def ask_head_loss(function, given, device):
    """The loss, and the gradients of all that has one."""
    tensors = {name: ready(tensor, given.options) for name, tensor in given.inputs.items()}
    yield
    loss = number_of(function(*tensors.values()), device)
    if loss.requires_grad:
        loss.backward()
    yield
    numbers = {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point()}
    return {DTYPE: str(loss.dtype), LOSS: loss.detach(), **gradients_of(**numbers)}
