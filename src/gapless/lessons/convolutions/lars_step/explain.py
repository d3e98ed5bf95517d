"""Lesson 05: why what `lars_step` leaves is wrong, where no known mistake gives it."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from .stage import MOMENTA


def explain_lars(case: Case, found: dict, wanted: dict) -> str | None:
    """At what rate the first parameter that is wrong took its step."""
    options, names = case.options, ("weights", "grads", "momenta")
    wrong = [place for place, pair in enumerate(zip(found[MOMENTA], wanted[MOMENTA])) if not _close(*pair)]
    if not wrong:
        return "The momenta are right, and the weights are not: each parameter loses its momentum, `param -= moment`."
    if options["steps"] > 1:
        return None
    place = wrong[0]
    if place in options["without_gradient"]:
        return f"Parameter {place} has no gradient: leave it and its momentum as they are."
    weight, grad, moment = (case.inputs[name][place].astype(np.float64).ravel() for name in names)
    kept, update = options["momentum"] * moment, grad + options["weight_decay"] * weight
    own, right = (np.dot(np.array(answer[MOMENTA][place]) - kept, update) / np.dot(update, update)
                  for answer in (found, wanted))
    if _close(found[MOMENTA][place], kept + own * update):
        return (f"Parameter {place} takes its step at a rate of {own:.4g}, and {right:.4g} is wanted: lr · trust · |weight| "
                "/ (|grad| + weight_decay · |weight|), or lr where one of the two norms is 0.")
    return (f"The momentum of parameter {place} should be momentum · moment + rate · (grad + weight_decay · weight), here "
            f"with a rate of {right:.4g}.")


def _close(own, right) -> bool:
    return np.allclose(own, right, 5e-3, 1e-3)
