"""Lesson 07: the usual wrong versions of ``gelu``, and what to say of each."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ....course.mistakes import Mistake

GELU = (
    Mistake(lambda x: x * torch.sigmoid(1.702 * x), "That is an approximation by the logistic function: keep the formula "
                                                    "with `erf`."),
    Mistake(lambda x: F.gelu(x, approximate="tanh"), (
        "That is the approximation by `tanh`, near and not equal. The formula with `erf` is `F.gelu`'s default.")),
    Mistake(lambda x: 0.5 * x * (1 + torch.erf(x)), "The √2 under `x` is missing."),
    Mistake(lambda x: 0.5 * x * (1 + torch.erf(x * 2.0 ** 0.5)), "`x` is divided by √2, not multiplied by it."),
    Mistake(lambda x: x * (1 + torch.erf(x / 2.0 ** 0.5)), "The factor 0.5 is missing."),
    Mistake(lambda x: 0.5 * (1 + torch.erf(x / 2.0 ** 0.5)), "The factor `x` is missing: that is the share alone."),
    Mistake(lambda x: 0.5 * x * (1 - torch.erf(x / 2.0 ** 0.5)), "A sign: one **plus** `erf`."),
    Mistake(lambda x: 0.5 * x * torch.erfc(x / 2.0 ** 0.5), "`erfc` is 1 − `erf`: here it is 1 + `erf`."),
    Mistake(lambda x: F.relu(x), "That is ReLU."),
    Mistake(lambda x: F.silu(x), "That is SiLU: x · sigmoid(x)."),
    Mistake(lambda x: F.gelu(x).detach(), "No gradient comes back: was something detached, or compiled under `no_grad`?"),
)
