"""Lesson 04: how ``input_bound`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from ....evidence.traces.trace import Trace


def ask_input_bound(function, given, device):
    """What ``function`` says of a trace."""
    trace = Trace(given.options["events"])
    yield
    found = function(trace)
    yield
    return found
