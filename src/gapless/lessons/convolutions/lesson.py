"""Lesson 05: its exercises, points, hints and headline."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...course.exercise import Exercise, Lesson, Program
from . import cases, functions, mistakes
from .quick import QUICK
from .stage import names
from .workload import ELEMENTS, training_step

EXERCISES = (
    Exercise(
        name="scale_down",
        slow=functions.scale_down,
        cases=cases.scaling_cases,
        mistakes=mistakes.SCALING_MISTAKES,
        full=cases.full_scaling,
        trial=cases.SCALING_TRIAL,
        busy_ms=100.0,
        points={"values": 2, "syncs": 2, "host_time": 1},
        max_time_ratio={"host_time": 0.25},
        hints=(
            "Which line needs to know on the host what only the device knows? Who else could decide?",
            "A factor of 1 changes nothing. Which factor do the two cases want, and how does one formula give both?",
            "`(limit / norm).clamp(max=1.0)` is the factor, a tensor: multiply by it, always.",
        ),
    ),
)


def programs(fixed: dict[str, Callable]) -> list[Program]:
    """The step with the function as handed out, and with the learner's."""
    return [Program(name, lambda device, scale=scale: training_step(scale, device), "–")
            for name, scale in (("as first written", functions.scale_down), ("no `if`", fixed["scale_down"]))]


def size_in_words(device: torch.device) -> str:
    """Such as "an update of 16.8 million numbers"."""
    return f"an update of {ELEMENTS / 1e6:.1f} million numbers"


LESSON = Lesson(
    id="05_convolutions",
    title="Convolutions and precision",
    exercises={exercise.name: exercise for exercise in EXERCISES},
    names=names,
    programs=programs,
    size=size_in_words,
    quick=QUICK,
)
