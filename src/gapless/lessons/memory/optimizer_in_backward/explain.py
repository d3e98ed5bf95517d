"""Lesson 08: why an answer to ``optimizer_in_backward`` is wrong, where no known mistake gives it."""

from __future__ import annotations

import numpy as np

from ..stage import CHANGES, REFUSED
from .stage import MISSING, OTHERS, STEPPED


def backward(case, found, wanted) -> str | None:
    """Which parameters have not moved."""
    if found[REFUSED] != wanted[REFUSED] and case.options["failing"] is not None:
        return "An error of the backward pass must reach the caller, and your `train` hides it. Catch no error there."
    if found[REFUSED] != wanted[REFUSED]:
        return "If no parameter requires a gradient, raise ValueError, as in the version that you got."
    if found[OTHERS]:
        return ("The returned list has optimizers of another network: a list outside the function keeps those of earlier "
                "calls. Create the list inside the function.")
    still = [name for name, right in wanted[CHANGES].items() if np.any(right) and not np.any(found[CHANGES][name])]
    if still and np.size(wanted[CHANGES][still[0]]) == 1:
        return (f"No step was taken for `{still[0]}`, which is a single number. Each parameter with `requires_grad` must "
                "take its steps, whatever its shape.")
    if still:
        return (f"No step was taken for `{still[0]}`. A parameter must take its step when its own gradient is complete. "
                "If the step waits for another parameter, it may never happen: some layers are frozen, and some steps "
                "skip a layer.")
    if missing := [name for name in found[MISSING] if name not in wanted[MISSING]]:
        number = ", which is a single number" if np.size(wanted[CHANGES][missing[0]]) == 1 else ""
        return (f"The returned list has no optimizer of `{missing[0]}`{number}. A scheduler is made of that list before the "
                "first step: it must hold the optimizers of all trained parameters at once.")
    if found[STEPPED] != wanted[STEPPED]:
        return ("The optimizers in the returned list must be those that take the steps: others' learning rates and states "
                "are of no use to a scheduler, or to who saves them.")
    return ("Some parameters have wrong values. Each must take one step in each call of `train`, when its own gradient "
            "is complete and not in a later call. Its optimizer comes from `make_optimizer` and is created once.")
