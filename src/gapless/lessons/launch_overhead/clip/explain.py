"""Lesson 06: why what `clip` leaves is wrong, where no known mistake gives it."""

from __future__ import annotations

import math

import numpy as np

from ....course.evidence import Case
from .stage import GRADIENTS, MOVED, NORM


def explain_clip(case: Case, found: dict, wanted: dict) -> str | None:
    """A norm that is missing, or by how much all gradients are off."""
    if found[NORM] is None:
        return "It returned nothing: is there a `return`?"
    if isinstance(found[NORM], float) and math.isinf(found[NORM]) and math.isfinite(wanted[NORM]):
        if case.inputs["grads"][0].dtype == np.float64:
            return ("A sum of squares overflows in float32, whose largest number is 3.4 · 10³⁸. Keep the norms of float64 "
                    "gradients in float64.")
        return ("A sum of squares overflows in float16, whose largest number is 65 504. `torch.linalg.vector_norm` of the "
                "norms adds their squares in float32.")
    if found[MOVED]:
        return ("The gradients are new tensors, and other code that holds the old ones sees no change. Multiply them in "
                "place: `_foreach_mul_`.")
    dtypes = {place: "bfloat16" if place in case.options["bfloat16"] else str(grad.dtype)
              for place, grad in enumerate(case.inputs["grads"])}
    for dtype in sorted(set(dtypes.values())) if isinstance(found[NORM], float) and len(set(dtypes.values())) > 1 else ():
        rest = [np.linalg.norm(np.ravel(case.inputs["grads"][place])) for place in dtypes if dtypes[place] != dtype]
        if math.isclose(found[NORM], np.linalg.norm(rest), rel_tol=1e-2):
            return f"The norm lacks the gradients in {dtype}. Group them by whatever dtype each has."
    if case.options["steps"] > 1:
        return ("Here a second call follows, and in between the parameters get new gradients, as after `zero_grad()`. "
                "Read `parameter.grad` in each call, and keep nothing from one call to the next.")
    own, right = (np.concatenate([np.ravel(grad) for grad in answer[GRADIENTS]]) for answer in (found, wanted))
    ratios = own[right != 0] / right[right != 0]
    if not np.allclose(ratios, ratios[0], rtol=0.02):
        return None
    return (f"All gradients are {ratios[0]:.4g} times what is wanted: the one factor is max_norm / (norm + 10⁻⁶), and 1 "
            "where that is more.")
