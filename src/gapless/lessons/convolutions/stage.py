"""Lesson 05: what an exercise's cell finds defined, and how each exercise's function is called.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def names() -> dict:
    """Name → what it stands for."""
    return {"torch": torch, "nn": nn, "F": F, "CONVOLUTIONS": CONVOLUTIONS}
