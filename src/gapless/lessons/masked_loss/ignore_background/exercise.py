"""Lesson 02: the exercise ``ignore_background``."""

from __future__ import annotations

from ....course.exercise import Exercise
from ....course.mistakes import MistakesFile
from .. import cases as shared_cases
from ..stage import names
from ..workload import LABELS
from . import cases, explain, slow

EXERCISE = Exercise(
    name="ignore_background",
    slow=slow.ignore_background,
    cases=cases.background_cases,
    mistakes=MistakesFile(__package__, names),
    explain=explain.background,
    full=cases.full_background,
    trial=shared_cases.BACKGROUND_TRIAL,
    busy_ms=100.0,
    points={"values": 2, "syncs": 2, "host_time": 1},
    max_time_ratio={"host_time": 0.25},
    assumptions=LABELS,
    hints=(
        "How many background pixels are there? The host cannot know before the device has counted them, and "
        "`nonzero` needs the number to size its result. Which operation answers pixel by pixel, in a result as "
        "large as its input?",
        "`torch.where(condition, a, b)` with three arguments takes `a` where the condition holds and `b` elsewhere. "
        "Its result has the shape of its inputs, whatever their values.",
        "Take `IGNORE` where `target == BACKGROUND`, and `target` elsewhere. A Python number is fine as `a`: it is "
        "passed to the kernel by value.",
    ),
)
