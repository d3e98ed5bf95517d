"""Lesson 02: the exercise ``zero_if_uniform``."""

from __future__ import annotations

from ....course.exercise import Exercise
from ....course.mistakes import MistakesFile
from .. import cases as shared_cases
from ..stage import names
from ..workload import LABELS
from . import cases, explain, slow

EXERCISE = Exercise(
    name="zero_if_uniform",
    slow=slow.zero_if_uniform,
    cases=cases.uniform_cases,
    mistakes=MistakesFile(__package__, names),
    explain=explain.uniform,
    full=cases.full_uniform,
    trial=shared_cases.UNIFORM_TRIAL,
    busy_ms=100.0,
    points={"values": 2, "syncs": 2, "host_time": 1},
    max_time_ratio={"host_time": 0.25},
    assumptions=LABELS,
    hints=(
        "`unique` sizes its result by what it finds, so the host waits for the count; the Python `if` needs that "
        "count on the host too. What do you need to know about the labels: their distinct values, or only whether "
        "there is more than one? And who needs to know it, the host or the device?",
        "Labels are all the same exactly when the smallest equals the largest: both are numbers that can stay on the "
        "device. (Sorting and counting the steps between neighbours also works, and costs more.)",
        "Keep the condition as a tensor and choose with `torch.where(uniform, 0.0 * loss, loss)`: both sides are "
        "computed, which is nothing for a scalar, and nobody has to wait.",
    ),
)
