"""Lesson 02: why an answer is wrong that no known mistake gives, in terms of its labels and counts."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F

from .functions import BACKGROUND, IGNORE

_MOST = 3  # labels to speak of


def background(case, found: np.ndarray, wanted: np.ndarray) -> str:
    """What became of which label."""
    labels, parts = case.inputs["target"], []
    for label in np.unique(labels[found != wanted]):
        became = np.unique(found[labels == label])
        text = ", ".join(str(each) for each in became[:4]) + (", …" if len(became) > 4 else "")
        right = IGNORE if label == BACKGROUND else label
        parts.append(f"label {label} became {text} and should {'stay' if right == label else 'become'} {right}")
    more = f"; and {len(parts) - _MOST} labels more" if len(parts) > _MOST else ""
    if np.array_equal(np.unique(labels[found != wanted]), [BACKGROUND]):
        hint = "Only what is put in the background's place is wrong."
    else:
        hint = "Labels that are no background have to stay as they are."
    return f"{'; '.join(parts[:_MOST]).capitalize()}{more}. {hint}"


def uniform(case, found: np.ndarray, wanted: np.ndarray) -> str | None:
    """How many values the labels hold, and what has become of the loss."""
    loss, count = float(case.inputs["loss"]), len(np.unique(case.inputs["target"]))
    holds = "one value only, so the loss has to be multiplied by zero" if count == 1 else (
        f"{count} distinct values, so the loss has to come back as it is")
    if not np.isfinite(loss) or loss == 0 or not np.isfinite(found).all():
        return f"The labels hold {holds}."
    return f"The labels hold {holds}; yours is {float(found) / loss:.4g} times the loss."


def entropy(case, found: np.ndarray, wanted: np.ndarray) -> str | None:
    """What the sum over the valid pixels seems to be divided by."""
    target = torch.from_numpy(case.inputs["target"])
    each = F.cross_entropy(torch.from_numpy(case.inputs["pred"]).double(), target, ignore_index=IGNORE, reduction="none")
    return _divided(float(found), float(each.sum()), int((target != IGNORE).sum()), target.numel(), "pixels")


def head(case, found: np.ndarray, wanted: np.ndarray) -> str | None:
    """What the sum over the valid rows seems to be divided by."""
    hidden, weights = (torch.from_numpy(case.inputs[name]).double() for name in ("hidden", "head"))
    target, most = torch.from_numpy(case.inputs["target"]), case.options["max_valid"]
    each = F.cross_entropy(hidden @ weights.T, target, ignore_index=IGNORE, reduction="none")
    valid = int((target != IGNORE).sum())
    other = most / target.numel(), most / max(valid, 1)
    return _divided(float(found), float(each.sum()), valid, target.numel(), "rows", other)


def _divided(found: float, total: float, valid: int, count: int, what: str, other: tuple[float, ...] = ()
             ) -> str | None:
    if not math.isfinite(found) or found == 0 or valid in (0, count):
        return None
    by = total / found
    if abs(by - round(by)) < 2e-3 and 1 <= round(by) <= 10 * count:
        return (f"It is the sum over the valid {what}, divided by {round(by)}. Valid are {valid} of {count}: divide by "
                "their number.")
    shares = {valid / count: "the share that is valid", count / valid: "the inverse of the share that is valid",
              **dict.fromkeys(other, "something with `max_valid`")}
    for share, words in shares.items():
        if math.isclose(found, total / valid * share, rel_tol=1e-3):
            return f"The mean was multiplied by {words}, {share:.4g}: leave that out."
    return None
