"""Lesson 08: why an answer to ``optimizer_in_backward`` is wrong, where no known mistake gives it."""

from __future__ import annotations

import numpy as np

from ..stage import CHANGES, REFUSED


def backward(case, found, wanted) -> str | None:
    """Which parameters have not moved."""
    if found[REFUSED] != wanted[REFUSED]:
        return "Where no parameter requires a gradient it raises ValueError, as the function did that was handed out."
    still = [name for name, right in wanted[CHANGES].items() if np.any(right) and not np.any(found[CHANGES][name])]
    if still:
        return (f"No step was taken for `{still[0]}`. A parameter takes its step when its own gradient is complete. A step "
                "that waits for another parameter may never come: some layers are frozen, or are not used in each step.")
    return ("Some parameters have become others. Each takes one step in each call of `train`, when its own gradient is "
            "complete and not in a later call, by an optimizer of `make_optimizer` that is made once.")
