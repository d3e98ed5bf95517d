"""Lesson 07: the exercise ``swish``."""

from __future__ import annotations

from ....course.exercise import Exercise
from . import cases, explain, mistakes, slow, stage
from .judged import seen

EXERCISE = Exercise(
    name="swish",
    slow=slow.swish,
    cases=cases.swish_cases,
    ask=stage.ask_swish,
    see=seen,
    mistakes=mistakes.SWISH,
    explain=explain.swish,
    trial=cases.SWISH_TRIAL,
    points={"values": 3, "peak_bytes": 2},
    max_peak_ratio=0.6,
    advice={"peak_bytes": "What does each line keep for the backward pass? `ctx.save_for_backward(x)` alone would do: the "
                          "rest can be computed again from `x`."},
    step_is="a forward and backward pass of six layers",
    hints=(
        "The slow function keeps three tensors of a layer's size until the backward pass: what `exp` gave, the sum below "
        "the line, and `x`. From which one can the other two be computed again?",
        "Write a `torch.autograd.Function` with `forward(ctx, x)` and `backward(ctx, gradient)`. With s = sigmoid(x) the "
        "derivative is s · (1 + x · (1 − s)). What should happen if somebody asks for the derivative of the derivative?",
        "`ctx.save_for_backward(x)` in `forward`, which returns `x * torch.sigmoid(x)`; in `backward`: "
        "`x, = ctx.saved_tensors`, `s = torch.sigmoid(x)`, `return gradient * s * (1 + x * (1 - s))`. Made of operators "
        "that "
        "autograd knows it has a second derivative too, a right one. `swish = Swish.apply` at the end.",
    ),
)
