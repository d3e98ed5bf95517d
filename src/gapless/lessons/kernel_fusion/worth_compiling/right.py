"""Lesson 07: what is right for ``worth_compiling``."""

from __future__ import annotations

import math
import statistics

NOISE = 0.05  # of a step: less is no gain


def right_worth_compiling(eager, compiled, steps):
    """The first compilation's price over what a step gains, later compilations being part of a step's price."""
    usual = [ms for ms, compiles in compiled if not compiles]
    if not usual:
        return False, None
    before, steady = statistics.median(eager), statistics.median(usual)
    again = [ms - steady for ms, compiles in compiled[1:] if compiles]
    gain = before - steady - sum(again) / max(1, len(compiled) - 1)
    if gain <= NOISE * before:
        return False, None
    after = max(1, math.ceil((compiled[0][0] - steady) / gain))
    return after <= steps, after
