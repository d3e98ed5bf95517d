"""Lesson 07: why an answer to ``swish`` is wrong, where no known mistake gives it."""

from __future__ import annotations

import numpy as np

from ..explain import GRADIENT, SILENTLY_WRONG, alike, of_digits, of_outputs
from ..stage import DTYPE, OUTPUTS, SECOND
from .stage import CHANGED, IN_ORDER


def swish(case, found, wanted) -> str | None:
    """Of the first thing that differs."""
    if found[DTYPE] != wanted[DTYPE]:
        return "The result must have the input's dtype: something on the way casts."
    if not alike(found[OUTPUTS], wanted[OUTPUTS]):
        return of_outputs(found, wanted) or (
            "Compute x · sigmoid(x), element by element, with nothing in a lower precision. It must hold far from zero "
            "in both directions: exp(-x) is infinite for x of -1000, but the result is 0.")
    if not alike(found[GRADIENT], wanted[GRADIENT]):
        if (np.isnan(np.array(found[GRADIENT])) & ~np.isnan(np.array(wanted[GRADIENT]))).any():
            return ("A nan comes from 0 / 0, 0 × inf, inf − inf or inf / inf. Far from zero `exp` of a large number is inf. "
                    "A sigmoid is exactly 0 or 1 there, whose `logit` is inf. Use `torch.sigmoid(x)` of a saved `x`.")
        return of_outputs(found, wanted, GRADIENT) or (
            "The outputs are right, but a derivative is not. `torch.autograd.gradcheck(swish, x)` compares yours with "
            "finite differences, for a float64 x with `requires_grad`.")
    if SECOND in wanted and not alike(found[SECOND], wanted[SECOND]):
        return SILENTLY_WRONG
    if IN_ORDER in wanted and not alike(found[IN_ORDER], wanted[IN_ORDER]):
        return ("Two forward passes were followed by their backward passes, in the same order. One got what belongs to the "
                "other. Keep what a pass needs in its own `ctx`, by `ctx.save_for_backward`.")
    if CHANGED in wanted and not alike(found[CHANGED], wanted[CHANGED]):
        return ("Here `x` was changed in place between the forward and the backward pass, and the gradient is silently "
                "wrong. Keep `x` by `ctx.save_for_backward`: then autograd notices the change and raises an error.")
    return of_digits(found, wanted)
