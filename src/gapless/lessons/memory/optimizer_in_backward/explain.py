"""Lesson 08: why an answer to ``optimizer_in_backward`` is wrong, where no known mistake gives it."""

from __future__ import annotations

import numpy as np

from ..stage import CHANGES, REFUSED


def backward(case, found, wanted) -> str | None:
    """Which parameters have not moved."""
    if found[REFUSED] != wanted[REFUSED]:
        return "If no parameter requires a gradient, raise ValueError, as in the version that you got."
    still = [name for name, right in wanted[CHANGES].items() if np.any(right) and not np.any(found[CHANGES][name])]
    if still:
        return (f"No step was taken for `{still[0]}`. A parameter must take its step when its own gradient is complete. "
                "If the step waits for another parameter, it may never happen: some layers are frozen, and some steps "
                "skip a layer.")
    return ("Some parameters have wrong values. Each must take one step in each call of `train`, when its own gradient "
            "is complete and not in a later call. Its optimizer comes from `make_optimizer` and is created once.")
