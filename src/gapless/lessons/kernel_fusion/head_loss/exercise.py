"""Lesson 07: the exercise ``head_loss``."""

from __future__ import annotations

from ....course.exercise import Exercise
from . import cases, explain, mistakes, slow, stage

EXERCISE = Exercise(
    name="head_loss",
    slow=slow.head_loss,
    cases=cases.head_cases,
    ask=stage.ask_head_loss,
    mistakes=mistakes.HEAD_LOSS,
    explain=explain.head_loss,
    trial=cases.HEAD_TRIAL,
    points={"values": 2, "kernels": 2, "peak_bytes": 1},
    fewer_kernels=38,
    max_peak_ratio=0.75,
    advice={"kernels": "Three groups of lines are one operator each: a + b·c·number, the norm by the root of the "
                       "mean of squares, and the loss of its logits.",
            "peak_bytes": "The logits are the largest tensor by far, and each line of the loss makes another one of their "
                          "size, forward or backward."},
    step_is="a forward and backward pass",
    hints=(
        "Put names to three groups of lines. The first adds a product; the second divides by the root of a mean of squares; "
        "the third is a loss that PyTorch has, ignored targets and all.",
        "`torch.addcmul(a, b, c, value=…)`, `F.rms_norm(h, shape, weight, eps)`, `F.cross_entropy(logits, target)`.",
        "`h = torch.addcmul(residual, gate, x, value=0.5)`, `h = F.rms_norm(h, h.shape[-1:], weight, 1e-6)`, "
        "`F.cross_entropy(h @ projection.T, target)`, whose `ignore_index` is -100 unless told otherwise.",
    ),
)
