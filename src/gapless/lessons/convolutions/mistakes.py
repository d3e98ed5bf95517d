"""Lesson 05: the usual wrong versions, and what to say of each."""

from __future__ import annotations

import torch

from ...course.mistakes import Mistake

SCALING_MISTAKES = (
    Mistake(lambda x, limit: x * (limit / x.norm()), (
        "It is scaled to the limit even where it lies below. A factor above 1 has to become 1.")),
    Mistake(lambda x, limit: x.clamp(-limit, limit), (
        "Each element is cut off at the limit by itself. The *norm* of all of them is to be at most the limit.")),
    Mistake(lambda x, limit: x * (limit / x.abs().max()).clamp(max=1.0), (
        "That is by the largest element. The norm is the root of the sum of squares.")),
    Mistake(lambda x, limit: torch.where(x.norm() > limit, x, x * (limit / x.norm())), (
        "The two sides are the wrong way round: what lies above the limit is to be scaled.")),
)
