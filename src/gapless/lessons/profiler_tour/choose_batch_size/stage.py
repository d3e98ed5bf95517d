"""Lesson 01: how ``choose_batch_size`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch

from ....course.plain import Unusable, left_alone
from ..stage import Measured

ERRORS = {kind.__name__: kind for kind in (RuntimeError, ValueError, MemoryError, KeyError, TypeError, AssertionError)}


def ask_batch(function, given, device):
    """The batch size that ``function`` chooses, of those in a table of measurements."""
    table, errors, raised = given.options["table"], given.options.get("errors", {}), []

    def measure(batch):
        row = table.get(str(batch))
        if str(batch) not in table:
            raise ValueError(f"{batch!r} is none of the candidates: measure those")
        if str(batch) in errors:
            raised.append(ERRORS[errors[str(batch)]]("device-side assert triggered"))
            raise raised[-1]
        if row is None:
            raise torch.OutOfMemoryError(f"out of memory: batch {batch} does not fit into the card's memory")
        return Measured(**row)

    candidates = list(given.options["candidates"])
    yield
    try:
        found = function(measure, candidates)
    except Exception as error:
        if error not in raised:
            raise
        found = "the error reached the caller"
    else:
        if raised:
            raise Unusable(f"`measure` raised a {type(raised[0]).__name__} here, which the function swallowed. Only "
                           "`torch.OutOfMemoryError` says that a batch does not fit: catch that alone.")
    yield
    left_alone("candidates", candidates, given.options["candidates"])
    return found
