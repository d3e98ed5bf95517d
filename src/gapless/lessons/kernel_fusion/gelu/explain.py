"""Lesson 07: why an answer to ``gelu`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from ..explain import GRADIENT, SILENTLY_WRONG, alike, of_digits, of_outputs
from ..stage import DTYPE, OUTPUTS, SECOND


def elementwise(case, found, wanted) -> str | None:
    """Of the first thing that differs."""
    if found[DTYPE] != wanted[DTYPE]:
        return "The result must have the input's dtype: something on the way casts."
    if not alike(found[OUTPUTS], wanted[OUTPUTS]):
        return of_outputs(found, wanted) or "Use the same formula, in fewer kernels."
    if SECOND in wanted and alike(found[GRADIENT], wanted[GRADIENT]) and not alike(found[SECOND], wanted[SECOND]):
        return SILENTLY_WRONG
    return of_digits(found, wanted) or "The outputs are right, but the gradient is not. Does autograd see every operator?"
