"""Lesson 10: what the programs call that stands for the host's own work.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch

from ...measure.device import host_work, synchronize

__all__ = ["decode", "synchronize"]

DECODE_MS = 1.0  # of the host for a record: what a JPEG of some 0.1 megapixels takes, about; an assumption


def decode(record: torch.Tensor, device: torch.device) -> torch.Tensor:
    """``record`` as it is, after ``DECODE_MS`` of the host's time: stands for decoding a file. Inputs on the CPU are what
    truth is computed from, where nobody measures: there it takes no time."""
    if device.type != "cpu":
        host_work(DECODE_MS, device)
    return record
