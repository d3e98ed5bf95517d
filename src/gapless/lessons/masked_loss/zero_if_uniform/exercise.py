"""Lesson 02: the exercise ``zero_if_uniform``."""

from __future__ import annotations

from ....course.checks import HostTime, Values, Waits
from ....course.exercise import Exercise, Measurement, Teaching
from ....course.mistakes import MistakesFile
from .. import cases as shared_cases
from ..stage import names
from ..workload import LABELS
from . import cases, explain, slow

EXERCISE = Exercise(
    name="zero_if_uniform",
    slow=slow.zero_if_uniform,
    cases=cases.uniform_cases,
    measurement=Measurement(trial=shared_cases.UNIFORM_TRIAL, full=cases.full_uniform, assumptions=LABELS, busy_ms=100.0),
    checks=(Values(2), Waits(2), HostTime(1, at_most=0.25)),
    teaching=Teaching(
        hints=(
            "The size of `unique`'s result depends on what it finds, so the host waits for the count. The `if` needs that "
            "count on the host too. What do you need to know about the labels: their distinct values, or only whether "
            "there is more than one? And who needs to know it, the host or the device?",
            "Labels are all the same exactly when the smallest equals the largest: both are numbers that can stay on the "
            "device. (Sorting and counting the steps between neighbours also works, and costs more.)",
            "Keep the condition as a tensor and choose with `torch.where(uniform, 0.0 * loss, loss)`: the device "
            "computes both sides, which costs nothing for a scalar, and nobody has to wait.",
        ),
        mistakes=MistakesFile(__package__, names),
        explain=explain.uniform,
    ),
)
