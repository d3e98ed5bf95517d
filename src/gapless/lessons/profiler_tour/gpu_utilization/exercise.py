"""Lesson 01: the exercise ``gpu_utilization``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Teaching
from ....evidence import views
from .. import stage
from . import cases, explain, slow
from .mistakes import UTILIZATION

EXERCISE = Exercise(
    name="gpu_utilization",
    slow=slow.gpu_utilization,
    cases=cases.utilization_cases,
    asked=Asked(ask=stage.ask_trace),
    right=Right(function=views.gpu_utilization),
    checks=(Values(4),),
    teaching=Teaching(
        hints=(
            "Two things are wrong in the function you were given: the sum, and the divisor. Which of them shows on a "
            "trace with one stream?",
            "Go through the kernels by their start (`trace.spans` is in that order) and remember the time up to which "
            "kernels are already counted. A kernel adds only the part after it. For the divisor, look for the spans called "
            "`ProfilerStep#…`.",
            "Let `reached` be the first step's start. For each kernel, add "
            "`max(0, span.end_us - max(span.start_us, reached))`. Then set `reached = max(reached, span.end_us)`. Divide "
            "by the later of the last step's end and the end of the last kernel, memcpy or memset, minus the first "
            "step's start.",
        ),
        mistakes=UTILIZATION,
        explain=explain.utilization,
    ),
)
