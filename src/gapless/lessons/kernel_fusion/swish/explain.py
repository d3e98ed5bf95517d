"""Lesson 07: why an answer to ``swish`` is wrong, where no known mistake gives it."""

from __future__ import annotations

from ..explain import alike, of_digits, of_outputs
from ..stage import DTYPE, OUTPUTS
from .stage import SECOND

GRADIENT = "gradient of `x`"


def swish(case, found, wanted) -> str | None:
    """Of the first thing that differs."""
    if found[DTYPE] != wanted[DTYPE]:
        return "The result must have the input's dtype: something on the way casts."
    if not alike(found[OUTPUTS], wanted[OUTPUTS]):
        return of_outputs(found, wanted) or (
            "Compute x · sigmoid(x), element by element, with nothing in a lower precision. It must hold far from zero "
            "in both directions: exp(-x) is infinite for x of -1000, but the result is 0.")
    if SECOND in wanted and alike(found[GRADIENT], wanted[GRADIENT]):
        return of_digits(found, wanted) or (
            "The first derivative is right, and the second one silently wrong. Let `backward` compute it from "
            "`ctx.saved_tensors` with operators that autograd knows. Or refuse it: "
            "`@torch.autograd.function.once_differentiable` above `backward`.")
    return of_outputs(found, wanted, GRADIENT) or (
        "The outputs are right, but a derivative is not. `torch.autograd.gradcheck(swish, x)` compares yours with finite "
        "differences, for a float64 x with `requires_grad`.")
