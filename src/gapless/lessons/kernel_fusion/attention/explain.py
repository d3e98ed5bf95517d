"""Lesson 07: why an answer to ``attention`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from ..explain import alike, of_digits, of_outputs
from ..stage import DTYPE, OUTPUTS
from .stage import AGAIN


def attention(case, found, wanted) -> str | None:
    """Of the first thing that differs."""
    if found[DTYPE] != wanted[DTYPE]:
        return "The result must have the inputs' dtype: something on the way casts."
    if AGAIN in found and not alike(found[AGAIN], found[OUTPUTS]):
        return "Two calls with the same inputs gave two answers. Is dropout left on? `dropout_p=0.0` is the default."
    if not alike(found[OUTPUTS], wanted[OUTPUTS]):
        return of_outputs(found, wanted) or (
            "Try it on one query by hand: its scores, the forbidden ones at minus infinity, softmax, times the values.")
    return of_digits(found, wanted) or "The outputs are right, but a gradient is not. Does autograd see every operator?"
