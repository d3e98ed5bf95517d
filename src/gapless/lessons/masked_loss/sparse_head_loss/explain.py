"""Lesson 02: why an answer to ``sparse_head_loss`` is wrong, where no known mistake gives it."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from ..explain import divided_by
from ..stage import IGNORE


def head(case, found: np.ndarray, wanted: np.ndarray) -> str | None:
    """What the sum over the valid rows seems to be divided by."""
    hidden, weights = (torch.from_numpy(case.inputs[name]).double() for name in ("hidden", "head"))
    target, most = torch.from_numpy(case.inputs["target"]), case.options["max_valid"]
    each = F.cross_entropy(hidden @ weights.T, target, ignore_index=IGNORE, reduction="none")
    valid = int((target != IGNORE).sum())
    if valid and np.isnan(found).all():
        return ("None of the chosen rows has a label, and the mean of no elements is nan. Which rows do your positions "
                "name?")
    other = most / target.numel(), most / max(valid, 1)
    return divided_by(float(found), float(each.sum()), valid, target.numel(), "rows", other) or (
        "Take each valid row once, with its own label: the same positions choose from `hidden` and from `target`.")
