"""Lesson 02: the exercise ``ignore_background``."""

from __future__ import annotations

from ....course.checks import HostTime, Values, Waits
from ....course.exercise import Exercise, Measurement, Teaching
from ....course.mistakes import MistakesFile
from .. import cases as shared_cases
from ..stage import names
from ..workload import LABELS
from . import cases, explain, slow

EXERCISE = Exercise(
    name="ignore_background",
    slow=slow.ignore_background,
    cases=cases.background_cases,
    measurement=Measurement(
        trial=shared_cases.BACKGROUND_TRIAL,
        full=cases.full_background,
        assumptions=LABELS,
        busy_ms=100.0,
    ),
    checks=(Values(2), Waits(2), HostTime(1, at_most=0.25)),
    teaching=Teaching(
        hints=(
            "How many background pixels are there? The host cannot know before the device has counted them, and "
            "`nonzero` needs the number to size its result. Which operation gives an answer for each pixel, in a result "
            "as large as its input?",
            "`torch.where(condition, a, b)` with three arguments takes `a` where the condition holds and `b` elsewhere. "
            "Its result has the shape of its inputs, whatever their values.",
            "Take `IGNORE` where `target == BACKGROUND`, and `target` elsewhere. A Python number is fine as `a`: it is "
            "passed to the kernel by value.",
        ),
        mistakes=MistakesFile(__package__, names),
        explain=explain.background,
    ),
)
