"""Lesson 06: gradients that are cleared in another way than by None, and what to say of each."""

from __future__ import annotations

import torch

from ....course.mistakes import Mistake
from .stage import FROZEN, HELD, LEFT, MOMENTA, WEIGHTS


def each(clear, only=lambda place, parameter: parameter.grad is not None):
    """``clear`` each of those parameters."""
    def clear_grads(parameters):
        for place, parameter in enumerate(parameters):
            if only(place, parameter):
                clear(parameter)

    return clear_grads


def _set(make):
    def clear(parameter):
        parameter.grad = make(parameter)

    return clear


def _nothing(parameters):
    return None


def _twice(parameters):
    if all(parameter.grad is None for parameter in parameters):
        return
    for parameter in parameters:
        parameter.grad = None


def _foreach(parameters):
    grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if grads:
        torch._foreach_zero_(grads)


def _forgets(parameters):
    for parameter in parameters:
        grad = parameter.grad
        grad = None  # noqa: F841


_ZERO = ("A gradient of zero is a gradient. The optimizer takes its step for that parameter too, so momentum or weight "
         "decay moves it. `None` means that there is none.")
_NONE = _set(lambda parameter: None)
CLEARING_MISTAKES = (
    Mistake(each(lambda parameter: parameter.grad.zero_()), _ZERO),
    Mistake(_foreach, "That is one kernel for all of them, but still zeros. " + _ZERO),
    Mistake(each(_set(lambda parameter: torch.zeros_like(parameter.grad))), "New zeros are still zeros. " + _ZERO),
    Mistake(each(_set(torch.zeros_like), lambda place, parameter: True), (
        "Now every parameter has a gradient, even one that never got one. " + _ZERO)),
    Mistake(_nothing, "Nothing was cleared: the gradients of all steps add up. Set `parameter.grad = None`."),
    Mistake(_forgets, ("Nothing was cleared: `grad = None` only rebinds a name in your function. Assign to the "
                       "parameter's attribute, `parameter.grad = None`.")),
    Mistake(each(_NONE, lambda place, parameter: parameter.requires_grad), (
        "A frozen parameter keeps its gradient of an earlier step, and the optimizer moves it with that in every step. "
        "It looks at `.grad`, not at `requires_grad`. Clear all of them.")),
    Mistake(each(_NONE, lambda place, parameter: parameter.dim() > 1), "Only the matrices' gradients were cleared."),
    Mistake(each(_NONE, lambda place, parameter: place > 0), "The first parameter kept its gradient."),
    Mistake(each(_NONE, lambda place, parameter: place == 0), (
        "Only the first parameter's gradient was cleared: is there a `return` in the loop?")),
    Mistake(_twice, ("The parameters may come as an iterator, which is empty after one pass. Use `parameters = "
                     "list(parameters)` first, or a single loop.")),
    Mistake(each(lambda parameter: parameter.data.zero_(), lambda place, parameter: True), (
        "That is the parameter itself, its weights, now zero. The gradient is `parameter.grad`.")),
)


def explain(case, found, wanted) -> str | None:
    """Of the first thing that differs."""
    if not isinstance(found, dict):
        return None
    if any(found.get(LEFT) or ()):
        return "After the call no parameter may have a gradient: set `parameter.grad = None` for each."
    if found.get(WEIGHTS) != wanted[WEIGHTS] or found.get(MOMENTA) != wanted[MOMENTA]:
        return "Only the gradients may change, not the weights and not the optimizer's state."
    if found.get(HELD) != wanted[HELD]:
        return ("Other code, such as a log, held the gradients, and you overwrote them in place. `parameter.grad = None` "
                "drops the reference and leaves the tensor as it is.")
    if found.get(FROZEN) != wanted[FROZEN]:
        return "A frozen parameter is no longer frozen: leave `requires_grad` as it was."
    return None
