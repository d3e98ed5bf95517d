"""Lesson 06: how ``all_heads`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch

from ....course.plain import Unusable, same_objects

COMPARED = 600  # elements of a tensor, of more about as many
# What is seen, in the words of the answer.
OUTPUTS, DTYPE, OF_X, OF_WEIGHTS, AGAIN = ("outputs", "dtype", "gradient of `x`", "gradients of the weights",
                                           "outputs once the weights have changed")


def ask_all_heads(function, given, device):
    """What ``function`` gives, and the gradients that come back from it. A gradient that does not come back is zero.
    ``again``: the weights change in place, as in a step of an optimizer, and a second call follows."""
    x = given.inputs["x"].detach().requires_grad_()
    weights = [weight.detach().requires_grad_() for weight in given.inputs["weights"]]
    gradient, held = given.inputs["gradient"], list(weights)
    yield
    outputs = function(x, held)
    _check(outputs, gradient, device)
    if outputs.requires_grad:
        outputs.backward(gradient.to(outputs.dtype))
    yield
    same_objects("weights", held, weights)
    answer = {DTYPE: str(outputs.dtype), OUTPUTS: _some(outputs.detach()), OF_X: _some(_gradient(x)),
              OF_WEIGHTS: [_some(_gradient(weight)) for weight in weights]}
    if given.options["again"]:
        with torch.no_grad():
            for weight in weights:
                weight.neg_()  # exact in every dtype
        again = function(x, held)
        _check(again, gradient, device)
        answer[AGAIN] = _some(again.detach())
    return answer


def _check(outputs, gradient: torch.Tensor, device: torch.device) -> None:
    """Raises Unusable where these are no outputs of the agreed form."""
    if not isinstance(outputs, torch.Tensor):
        what = "nothing: is there a `return`?" if outputs is None else f"a {type(outputs).__name__}, not a tensor."
        raise Unusable(f"it returned {what}")
    if outputs.device.type != device.type:
        raise Unusable(f"it returned a tensor on {outputs.device}: the heads' results must stay on the device of `x`.")
    if outputs.shape != gradient.shape:
        raise Unusable(f"it returned a tensor of shape {tuple(outputs.shape)}, not {tuple(gradient.shape)}: the "
                       "dimensions of `x`, with the last as wide as all weights together. Every head has its own "
                       "columns, the last too, and as many as its weight has rows.")


def _gradient(tensor: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad


def _some(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.flatten()[::max(1, -(-tensor.numel() // COMPARED))]
