"""Lesson 05: the exercise ``warmup_schedule``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Teaching
from ....course.mistakes import MistakesFile
from ..stage import names
from . import cases, right, slow, stage
from .explain import explain_schedule

EXERCISE = Exercise(
    name="warmup_schedule",
    slow=slow.warmup_schedule,
    cases=cases.schedule_cases,
    asked=Asked(ask=stage.ask_warmup_schedule),
    right=Right(function=right.right_warmup_schedule),
    checks=(Values(3),),
    teaching=Teaching(
        hints=(
            "At step 0 the rate is the optimizer's own. What is it at step `warmup`, and at step `total`?",
            "`LambdaLR` multiplies each group's own rate by the factor that your function returns for a step: 1 at "
            "first, `factor` at step `warmup`, 0 from step `total` on.",
            "Before `warmup`: `1 + (factor - 1) * step / warmup`. After: `share = min((step - warmup) / (total - warmup), "
            "1)`, and `factor * (1 + math.cos(math.pi * share)) / 2`.",
        ),
        mistakes=MistakesFile(__package__, names),
        explain=explain_schedule,
    ),
)
