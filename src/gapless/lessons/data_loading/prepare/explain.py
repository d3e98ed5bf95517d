"""Lesson 04: why an answer to ``prepare`` is wrong, where no known mistake gives it."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from .cases import ANOTHER


def explain_prepare(case: Case, found: np.ndarray, wanted: np.ndarray) -> str | None:
    """If the first wrong channel is a scale and a shift of the bytes: which of the two is wrong."""
    for channel in range(wanted.shape[1]):
        own, right, images = (each[:, channel].ravel().astype(np.float64) for each in (found, wanted, case.inputs["images"]))
        if np.allclose(own, right, 1e-4, 1e-5) or not np.ptp(images):
            continue
        scale, shift = np.polyfit(images, own, 1)
        if not np.allclose(scale * images + shift, own, 1e-4, 1e-4):
            return None
        std, mean = (float(case.inputs[name][channel]) for name in ("std", "mean"))
        both = not np.isclose((scale, shift), (1 / (255 * std), -mean / std), rtol=1e-3).any()
        kept = " Do you keep something from an earlier call?" if case.name == ANOTHER and both else ""
        return (f"Your channel {channel} is {scale:.5g} · byte {'−' if shift < 0 else '+'} {abs(shift):.5g}. It should "
                f"be 1 / (255 · std) = {1 / (255 * std):.5g} and −mean / std = {-mean / std:.5g}.{kept}")
    return None
