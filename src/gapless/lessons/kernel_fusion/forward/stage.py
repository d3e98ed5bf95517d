"""Lesson 07: how ``forward`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import contextlib
import functools
import io

import torch

from ..stage import DTYPE, LOSS, gradients_of, number_of, quiet


def ask_forward(function, given, device):
    """The loss and its gradients, of ``function`` compiled, and again where graphs are counted. Its output is not shown."""
    tensors = {name: tensor.detach().requires_grad_() for name, tensor in given.inputs.items()}
    compiled = function
    if device.type != "cpu":
        if given.options["counts"]:
            torch._dynamo.reset()
        compiled = _compiled(function)
    yield
    with quiet(), contextlib.redirect_stdout(io.StringIO()):
        loss = number_of(compiled(*tensors.values()), device)
    if loss.requires_grad:
        loss.backward()
    yield
    return {DTYPE: str(loss.dtype), LOSS: loss.detach(), **gradients_of(**tensors)}


@functools.lru_cache(maxsize=4)
def _compiled(function):
    """Once for all calls."""
    return torch.compile(function)
