"""Lesson 09: what is right for ``find_straggler``."""

from __future__ import annotations

from ....evidence.ranks.straggler import straggler
from .stage import RANK, WHY


def right_find_straggler(traces):
    """Who sets the pace of a run, by :func:`gapless.views.straggler`."""
    found = straggler(dict(enumerate(traces)))
    return {RANK: found.rank, WHY: found.cause}
