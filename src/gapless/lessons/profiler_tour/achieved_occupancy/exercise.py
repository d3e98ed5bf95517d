"""Lesson 01: the exercise ``achieved_occupancy``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Teaching
from ....evidence import views
from .. import stage
from . import cases, explain, slow
from .mistakes import OCCUPIED

EXERCISE = Exercise(
    name="achieved_occupancy",
    slow=slow.achieved_occupancy,
    cases=cases.occupancy_cases,
    asked=Asked(ask=stage.ask_trace),
    right=Right(function=views.achieved_occupancy),
    checks=(Values(2),),
    teaching=Teaching(
        hints=(
            "Take a kernel of 2 µs and one of 2 ms. Which of them says more about where the time goes?",
            "Use a weighted mean: the sum of value times weight, divided by the sum of the weights. A kernel without "
            "that value has no weight.",
            "Weight by `span.end_us - span.start_us`, and divide by the sum of those durations (not by the steps' time). "
            "Then divide by 100, since the trace has per cent.",
        ),
        mistakes=OCCUPIED,
        explain=explain.occupancy,
    ),
)
