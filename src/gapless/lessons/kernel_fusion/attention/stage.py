"""Lesson 07: how ``attention`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from ..stage import DTYPE, OUTPUTS, compiles, gradients_of, some, tensor_of


@compiles
def ask_attention(function, given, device):
    """What is attended to, and the gradients of queries, keys and values."""
    tensors = {name: given.inputs[name].detach().requires_grad_() for name in "qkv"}
    yield
    outputs = tensor_of(function(*tensors.values(), given.inputs["mask"]), tensors["v"], device)
    if outputs.requires_grad:
        outputs.backward(given.inputs["gradient"].to(outputs.dtype))
    yield
    return {DTYPE: str(outputs.dtype), OUTPUTS: some(outputs.detach()), **gradients_of(**tensors)}
