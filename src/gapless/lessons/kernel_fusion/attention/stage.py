"""Lesson 07: how ``attention`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from ..stage import DTYPE, OUTPUTS, compiles, gradients_of, ready, some, tensor_of

AGAIN = "outputs of a second call"


@compiles
def ask_attention(function, given, device):
    """What is attended to, once or twice, and the gradients of queries, keys and values, where they are wanted."""
    tensors = {name: ready(given.inputs[name], given.options) for name in "qkv"}
    mask = given.inputs["mask"]
    if given.options.get("expanded"):  # one row for all queries, as a mask of padding is made
        mask = mask[:, :, :1].expand_as(mask)
    copies = [each.detach().clone() for each in (*tensors.values(), mask)] if given.options.get("again") else []
    yield
    outputs = tensor_of(function(*tensors.values(), mask), tensors["v"], device)
    if outputs.requires_grad:
        outputs.backward(given.inputs["gradient"].to(outputs.dtype))
    yield
    found = {DTYPE: str(outputs.dtype), OUTPUTS: some(outputs.detach()), **gradients_of(**tensors)}
    return {**found, AGAIN: some(tensor_of(function(*copies), tensors["v"], device))} if copies else found
