"""Lesson 07: why an answer to ``head_loss`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from ..explain import alike, of_digits
from ..stage import DTYPE, LOSS


def head_loss(case, found, wanted) -> str | None:
    """Of the first thing that differs."""
    if found[DTYPE] != wanted[DTYPE]:
        return "The result must have the inputs' dtype: something on the way casts."
    if not alike(found[LOSS], wanted[LOSS]):
        if not (case.inputs["target"] != -100).any():
            return "All targets are ignored. The mean of nothing is nan (0 / 0), as in the slow function."
        return ("Compare your parts with the slow function's, one by one: the sum, the norm, the loss of the logits.")
    return of_digits(found, wanted) or "The loss is right, but a gradient is not. Does autograd see every operator?"
