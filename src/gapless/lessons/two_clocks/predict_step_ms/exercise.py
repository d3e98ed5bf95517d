"""Lesson 00: the exercise ``predict_step_ms``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Teaching
from . import cases, explain, right, slow, stage
from .mistakes import PREDICTION

EXERCISE = Exercise(
    name="predict_step_ms",
    slow=slow.predict_step_ms,
    cases=cases.prediction_cases,
    asked=Asked(ask=stage.ask_predict),
    right=Right(function=right.right_step_ms, on_device=True, relative_tolerance=0.1),
    checks=(Values(5),),
    teaching=Teaching(
        hints=(
            "Three things can be the slowest: the arithmetic, the memory, or the host that launches the kernels. Which of "
            "them happen at the same time, and which one after another?",
            "Within one kernel the arithmetic and the memory traffic overlap. So the larger time counts, but at least "
            "`card.kernel_ms`. Kernels run one after another: add them up, each `launches[i]` times. The host launches "
            "while the device works, so the larger of the two totals counts.",
            "For each entry: `ms = max(1000 * f / card.flops_per_s, 1000 * b / card.bytes_per_s, card.kernel_ms)`. The "
            "device needs the sum of `n * ms`, the host `sum(launches) * card.launch_ms`. Return the larger of the two.",
        ),
        mistakes=PREDICTION,
        explain=explain.prediction,
    ),
)
