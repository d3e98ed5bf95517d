"""Lesson 07: the exercise ``swish``."""

from __future__ import annotations

import torch.nn.functional as F

from ....course.checks import PeakBytes, Values
from ....course.exercise import Asked, Exercise, Measurement, Teaching
from ....course.mistakes import MistakesFile
from ..judged import may_refuse
from ..stage import SECOND, names, second_derivative
from . import cases, explain, slow, stage

RIGHT = {
    SECOND: lambda x, gradient: second_derivative(F.silu, x, gradient),
    # of a copy, which a change does not reach
    stage.CHANGED: lambda x, gradient: stage.late_gradients(lambda x: F.silu(x.clone()), x)[stage.CHANGED],
}
EXERCISE = Exercise(
    name="swish",
    slow=slow.swish,
    cases=cases.swish_cases,
    asked=Asked(ask=stage.ask_swish, see=may_refuse(RIGHT)),
    measurement=Measurement(trial=cases.SWISH_TRIAL, step_is="a forward and backward pass of six layers"),
    checks=(
        Values(3),
        PeakBytes(2, at_most=0.6, advice=(
            "What does each line keep for the backward pass? `ctx.save_for_backward(x)` alone is enough: the rest can "
            "be computed again from `x`.")),
    ),
    teaching=Teaching(
        hints=(
            "The slow function keeps three tensors of a layer's size until the backward pass: the result of `exp`, the "
            "denominator, and `x`. From which one can you compute the other two again?",
            "Write a `torch.autograd.Function` with `forward(ctx, x)` and `backward(ctx, gradient)`. With s = sigmoid(x) "
            "the derivative is s · (1 + x · (1 − s)). What should happen if somebody asks for the derivative of the "
            "derivative?",
            "Use `ctx.save_for_backward(x)` in `forward`, which returns `x * torch.sigmoid(x)`. In `backward`: `x, = "
            "ctx.saved_tensors`, `s = torch.sigmoid(x)`, `return gradient * s * (1 + x * (1 - s))`. These are operators "
            "that autograd knows, so the second derivative is right too. Put `swish = Swish.apply` at the end.",
        ),
        mistakes=MistakesFile(__package__, names),
        explain=explain.swish,
    ),
)
