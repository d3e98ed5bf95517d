"""Lesson 09: how ``find_straggler`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import numpy as np

from ....course.plain import Unusable
from ....evidence.traces.trace import Trace

RANK, WHY = "rank", "why"
REASONS = ("compute", "input", "network", None)


def ask_find_straggler(function, given, device):
    """What ``function`` says of the traces of a run, in the order of ranks."""
    traces = [Trace(events) for events in given.options["traces"]]
    yield
    found = function(traces)
    yield
    if not isinstance(found, dict) or set(found) != {RANK, WHY}:
        raise Unusable(f"it returned {_shown(found)}, not a dict with 'rank' and 'why'.")
    rank, why = found[RANK], found[WHY]
    rank = int(rank) if isinstance(rank, np.integer) else rank
    if rank is not None and (type(rank) is not int or not 0 <= rank < len(traces)):
        raise Unusable(f"'rank' is {_shown(rank)}, not a number from 0 to {len(traces) - 1} or None.")
    if why is not None and why not in REASONS:
        raise Unusable(f"'why' is {_shown(why)}, not 'compute', 'input', 'network' or None.")
    return {RANK: rank, WHY: why}


def _shown(value) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"
