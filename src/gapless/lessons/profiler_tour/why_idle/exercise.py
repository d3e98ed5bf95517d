"""Lesson 01: the exercise ``why_idle``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Teaching
from .. import stage
from . import cases, explain, right, slow
from .mistakes import IDLE

EXERCISE = Exercise(
    name="why_idle",
    slow=slow.why_idle,
    cases=cases.idle_cases,
    asked=Asked(ask=stage.ask_trace),
    right=Right(function=right.right_why_idle),
    checks=(Values(5),),
    teaching=Teaching(
        hints=(
            "While the GPU is idle, what does the host do? Look at one step of each of the three programs above: is the "
            "host's row full or empty?",
            "If the host's row is empty for most of the step, the host prepares data, which the profiler does not see. If "
            "the row is full, the host launches as fast as it can. Then ask how much of the card each kernel fills: "
            "`blocks per SM`.",
            "From the first step's start to the last one's end, compute the share of the time inside operators that contain "
            "a launch. Below one half, it is the loader. "
            "Otherwise, compute the mean of `min(1, blocks per SM)`, weighted by duration. Below one half, the batch is "
            "small.",
        ),
        mistakes=IDLE,
        explain=explain.idle,
    ),
)
