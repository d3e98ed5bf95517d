"""Lesson 02: why an answer to ``ignore_background`` is wrong, where no known mistake gives it."""

from __future__ import annotations

import numpy as np

from ..stage import BACKGROUND, IGNORE

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
        hint = "Part of the background is still there: look at every image, row and column." if (
            BACKGROUND in found[labels == BACKGROUND]) else "Only the label that replaces the background is wrong."
    else:
        hint = "Labels that are not background must stay the same."
    return f"{'; '.join(parts[:_MOST]).capitalize()}{more}. {hint}"
