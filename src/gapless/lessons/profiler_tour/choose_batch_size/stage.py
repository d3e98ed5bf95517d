"""Lesson 01: how ``choose_batch_size`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch

from ..stage import Measured


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
