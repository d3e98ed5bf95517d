"""Lesson 07: the exercise ``head_loss``."""

from __future__ import annotations

from ....course.checks import Kernels, PeakBytes, Values
from ....course.exercise import Asked, Exercise, Measurement, Teaching
from ....course.mistakes import MistakesFile
from ..stage import names
from . import cases, explain, slow, stage

EXERCISE = Exercise(
    name="head_loss",
    slow=slow.head_loss,
    cases=cases.head_cases,
    asked=Asked(ask=stage.ask_head_loss),
    measurement=Measurement(trial=cases.HEAD_TRIAL, step_is="a forward and backward pass"),
    checks=(
        Values(2),
        Kernels(2, fewer=30, unwanted=r"\(add\)", advice=(
            "Three groups of lines are one operator each: a + b·c·number, the norm by the root of the mean of squares, "
            "and the loss of the logits.")),
        PeakBytes(1, at_most=0.75, advice=(
            "The logits are by far the largest tensor. Each line of the loss makes another tensor of their size, "
            "forward or backward.")),
    ),
    teaching=Teaching(
        hints=(
            "Name three groups of lines. The first adds a product. The second divides by the root of a mean of squares. "
            "The third is a loss that PyTorch has, and it handles the ignored targets too.",
            "`torch.addcmul(a, b, c, value=…)`, `F.rms_norm(h, shape, weight, eps)`, `F.cross_entropy(logits, target)`.",
            "`h = torch.addcmul(residual, gate, x, value=0.5)`, `h = F.rms_norm(h, h.shape[-1:], weight, 1e-6)`, "
            "`F.cross_entropy(h @ projection.T, target)`. Its `ignore_index` is -100 by default.",
        ),
        mistakes=MistakesFile(__package__, names),
        explain=explain.head_loss,
    ),
)
