"""Lesson 01: what an exercise's cell finds defined, and how each exercise's function is called."""

from __future__ import annotations

import torch

from ...evidence.trace import Trace
from .functions import Measured, line_of


def names() -> dict:
    """Name → what it stands for."""
    return {"torch": torch, "line_of": line_of}


def ask_trace(function, given, device):
    """What ``function`` says of a trace."""
    options = dict(given.options)
    trace = Trace(options.pop("events"))
    yield
    found = function(trace, **options)
    yield
    return found


def ask_batch(function, given, device):
    """The batch size that ``function`` chooses, of those in a table of measurements."""
    table = given.options["table"]

    def measure(batch):
        row = table.get(str(batch))
        if str(batch) not in table:
            raise ValueError(f"{batch!r} is none of the candidates: measure those")
        if row is None:
            raise torch.OutOfMemoryError(f"batch {batch} does not fit into the card's memory")
        return Measured(**row)

    yield
    found = function(measure, list(given.options["candidates"]))
    yield
    return found
