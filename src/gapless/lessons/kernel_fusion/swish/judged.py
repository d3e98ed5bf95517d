"""Lesson 07: a second derivative may be refused."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from .stage import REFUSED, SECOND, second_derivative


def seen(case, answer, notes):
    """To refuse is as right as to be right."""
    if isinstance(answer, dict) and answer.get(SECOND) == REFUSED:
        x, gradient = (torch.from_numpy(np.asarray(case.inputs[name])) for name in ("x", "gradient"))
        return answer | {SECOND: second_derivative(F.silu, x.requires_grad_(), gradient).tolist()}
    return answer
