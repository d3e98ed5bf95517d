"""Lesson 01: the exercise ``sm_efficiency``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Teaching
from ....evidence import views
from .. import stage
from . import cases, explain, slow
from .mistakes import EFFICIENCY

EXERCISE = Exercise(
    name="sm_efficiency",
    slow=slow.sm_efficiency,
    cases=cases.efficiency_cases,
    asked=Asked(ask=stage.ask_trace),
    right=Right(function=views.sm_efficiency),
    checks=(Values(4),),
    teaching=Teaching(
        hints=(
            "A kernel with 64 blocks on 80 SMs keeps at most 0.8 of the card busy, for as long as it runs. How much do "
            "two such kernels fill if they run at the same time?",
            "Sort all starts and ends. Between two neighbours nothing changes: there, add up the blocks per SM of the "
            "kernels that run, and take at most 1.",
            "`sum(min(1, sum(b for s, e, b in kernels if s <= left < e)) * (right - left) for left, right in zip(cuts, "
            "cuts[1:]))`, divided by the steps' time as in the exercise before. The sorted `cuts` begin at the first step's "
            "start: leave out what is before.",
        ),
        mistakes=EFFICIENCY,
        explain=explain.efficiency,
    ),
)
