"""Lesson 06: why what `clip` leaves is wrong, where no known mistake gives it."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from .stage import GRADIENTS, NORM


def explain_clip(case: Case, found: dict, wanted: dict) -> str | None:
    """A norm that is missing, or by how much all gradients are off."""
    if found[NORM] is None:
        return "It returned nothing: is there a `return`?"
    own, right = (np.concatenate([np.ravel(grad) for grad in answer[GRADIENTS]]) for answer in (found, wanted))
    ratios = own[right != 0] / right[right != 0]
    if not np.allclose(ratios, ratios[0], rtol=0.02):
        return None
    return (f"All gradients are {ratios[0]:.4g} times what is wanted: the one factor is max_norm / (norm + 10⁻⁶), and 1 "
            "where that is more.")
