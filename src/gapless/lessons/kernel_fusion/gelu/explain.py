"""Lesson 07: why an answer to ``gelu`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from ..explain import alike, of_outputs
from ..stage import DTYPE, OUTPUTS


def elementwise(case, found, wanted) -> str | None:
    """Of the first thing that differs."""
    if found[DTYPE] != wanted[DTYPE]:
        return "The input's dtype is the result's: something on the way casts."
    if alike(found[OUTPUTS], wanted[OUTPUTS]):
        return "The outputs are right, and the gradient is not: is every part made of operators that autograd sees?"
    return of_outputs(found, wanted) or "It is the same formula that is wanted, in fewer kernels."
