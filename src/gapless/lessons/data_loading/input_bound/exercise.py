"""Lesson 04: the exercise ``input_bound``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Teaching
from . import cases, explain, mistakes, right, slow, stage

EXERCISE = Exercise(
    name="input_bound",
    slow=slow.input_bound,
    cases=cases.input_bound_cases,
    asked=Asked(ask=stage.ask_input_bound),
    right=Right(function=right.right_input_bound),
    checks=(Values(4),),
    teaching=Teaching(
        hints=(
            "The host spends time in the loader. When does that cost the GPU time, and what does the GPU do otherwise?",
            "Two sets of moments: those inside a loader's block, on the steps' thread, and those in which a kernel, a copy "
            "or a memset runs. Measure those in the first set but not in the second. Lesson 01 has the union of "
            "intervals.",
            "Write `covered(spans)`: the time that at least one span covers, cut off at the steps' start and end. Then "
            "`covered(work + blocks) - covered(work)` is the time of the blocks without work. Divide by the steps' time.",
        ),
        mistakes=mistakes.BOUNDS,
        explain=explain.explain_bound,
    ),
)
