"""Lesson 02: why an answer to ``zero_if_uniform`` is wrong, where no known mistake gives it."""

from __future__ import annotations

import numpy as np


def uniform(case, found: np.ndarray, wanted: np.ndarray) -> str | None:
    """How many values the labels hold, and what has become of the loss."""
    loss, count = float(case.inputs["loss"]), len(np.unique(case.inputs["target"]))
    holds = "one value only, so the loss has to be multiplied by zero" if count == 1 else (
        f"{count} distinct values, so the loss has to come back as it is")
    if not np.isfinite(loss) or loss == 0 or not np.isfinite(found).all():
        return f"The labels hold {holds}."
    return f"The labels hold {holds}; yours is {float(found) / loss:.4g} times the loss."
