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
            "Host row empty for most of the step: it prepares data, and the profiler does not see it. Host row full: it "
            "launches as fast as it can; then ask how much of the card each kernel fills, `blocks per SM`.",
            "Share of the steps' time inside operators that contain a launch: below one half it is the loader. Else the "
            "mean of `min(1, blocks per SM)`, weighted by duration: below one half the batch is small.",
        ),
        mistakes=IDLE,
        explain=explain.idle,
    ),
)
