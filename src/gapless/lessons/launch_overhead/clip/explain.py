"""Lesson 06: why what `clip` leaves is wrong, where no known mistake gives it."""

from __future__ import annotations

import math

import numpy as np

from ....course.evidence import Case
from .stage import GRADIENTS, NORM


def explain_clip(case: Case, found: dict, wanted: dict) -> str | None:
    """A norm that is missing, or by how much all gradients are off."""
    if found[NORM] is None:
        return "It returned nothing: is there a `return`?"
    if isinstance(found[NORM], float) and math.isinf(found[NORM]) and math.isfinite(wanted[NORM]):
        return ("A sum of squares overflows in float16, whose largest number is 65 504. `torch.linalg.vector_norm` of the "
                "norms adds their squares in float32.")
    if case.options["steps"] > 1:
        return ("Here a second call follows, and in between the parameters get new gradients, as after `zero_grad()`. "
                "Read `parameter.grad` in each call, and keep nothing from one call to the next.")
    own, right = (np.concatenate([np.ravel(grad) for grad in answer[GRADIENTS]]) for answer in (found, wanted))
    ratios = own[right != 0] / right[right != 0]
    if not np.allclose(ratios, ratios[0], rtol=0.02):
        return None
    return (f"All gradients are {ratios[0]:.4g} times what is wanted: the one factor is max_norm / (norm + 10⁻⁶), and 1 "
            "where that is more.")
