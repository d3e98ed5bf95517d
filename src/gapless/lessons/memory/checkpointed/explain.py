"""Lesson 08: why a checkpointed network is wrong, where no known mistake gives its answer."""

from __future__ import annotations

from ....course.evidence import Case
from ....course.plain import difference
from .stage import CHANGES, EVALUATED, LOSSES, OF_IMAGES, STATISTICS

_SEEN = {
    LOSSES: "The forward pass computes something else. Keep the same parts, in the same order, each once for each image.",
    CHANGES: "The losses are right, but the gradients are not. Does the backward pass run the same function again, with "
             "the same random numbers and the same tensors?",
    OF_IMAGES: "The weights' gradients are right, but the images' are not. Images can require a gradient too: do not detach "
               "them.",
    STATISTICS: "The steps are right, but the norms' statistics are not. Each forward pass in training mode must update "
                "them exactly once.",
    EVALUATED: "Training is right, but evaluation is not. Look at the network's mode in each forward pass.",
}


def checkpointed(case: Case, found: dict, wanted: dict) -> str | None:
    """Of the first thing that differs."""
    return next((why for name, why in _SEEN.items() if difference(found[name], wanted[name], 1e-4, 1e-5) is not None), None)
