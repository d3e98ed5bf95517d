"""Lesson 06: the exercise ``all_heads``."""

from __future__ import annotations

from ....course.checks import Kernels, StepTime, Values
from ....course.exercise import Asked, Exercise, Measurement, Teaching
from . import cases, slow
from .mistakes import HEAD_MISTAKES, explain_heads
from .stage import ask_all_heads

EXERCISE = Exercise(
    name="all_heads",
    slow=slow.all_heads,
    cases=cases.head_cases,
    asked=Asked(ask=ask_all_heads),
    measurement=Measurement(trial=cases.HEAD_TRIAL, step_is="a forward and backward pass"),
    checks=(
        Values(2),
        # of five a head
        Kernels(2, fewer=4 * cases.HEADS, advice=(
            "Each head launches one product forward, two backward, and a gradient for its slice. Which operator takes "
            "all heads' matrices at once?")),
        StepTime(1, at_most=0.35, advice=(
            "The device has little to do. The host sets the pace: it launches one short kernel after the other.")),
    ),
    teaching=Teaching(
        hints=(
            "Each head multiplies a matrix of rows × features by one of features × width. Which operator multiplies many "
            "such pairs of one size with a single launch? And what should happen to a last head of another size?",
            "`torch.stack(weights)` is heads × features × widths, and `x.unflatten(-1, (heads, -1))` is … × heads × "
            "features. `torch.bmm` and `torch.einsum` take all heads at once. Compute a smaller last head separately, "
            "and join the two with `torch.cat`.",
            "`torch.einsum(\"...hd,hdw->...hw\", parts, torch.stack(equal)).flatten(-2)`, where `equal` are the "
            "weights of one size, and `parts` their `len(equal) * len(equal[0])` columns, unflattened. Without any weights "
            "the result is `x.new_zeros(*x.shape[:-1], 0)`.",
        ),
        mistakes=HEAD_MISTAKES,
        explain=explain_heads,
    ),
)
