"""Lesson 02: why an answer is wrong that no known mistake gives, in terms of its labels and counts."""

from __future__ import annotations

import math


def divided_by(found: float, total: float, valid: int, count: int, what: str, other: tuple[float, ...] = ()
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
