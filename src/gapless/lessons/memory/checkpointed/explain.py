"""Lesson 08: why a checkpointed network is wrong, where no known mistake gives its answer."""

from __future__ import annotations

from ....course.evidence import Case
from ....course.plain import difference
from .stage import CHANGES, EVALUATED, LOSSES, STATISTICS

_SEEN = {
    LOSSES: "The forward pass computes something else: the same parts, in the same order, each once for each image.",
    CHANGES: "The losses are right and the gradients are not: is what runs in the backward pass the same function, with the "
             "same random numbers, of the same tensors?",
    STATISTICS: "The steps are right, and the norms have seen something else: each forward pass in training mode updates "
                "their statistics once, neither never nor twice.",
    EVALUATED: "Training is right, and evaluation is not: the network's mode is to be looked at in each forward pass.",
}


def checkpointed(case: Case, found: dict, wanted: dict) -> str | None:
    """Of the first thing that differs."""
    return next((why for name, why in _SEEN.items() if difference(found[name], wanted[name], 1e-4, 1e-5) is not None), None)
