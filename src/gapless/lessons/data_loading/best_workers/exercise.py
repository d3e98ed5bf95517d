"""Lesson 04: the exercise ``best_workers``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Teaching
from ....course.mistakes import MistakesFile
from ..stage import names
from . import cases, explain, right, slow
from .stage import ask_best_workers

EXERCISE = Exercise(
    name="best_workers",
    slow=slow.best_workers,
    cases=cases.workers_cases,
    asked=Asked(ask=ask_best_workers),
    right=Right(function=right.right_best_workers, wanted=right.wanted_workers, on_device=True),
    checks=(Values(5),),
    teaching=Teaching(
        hints=(
            "What does the first epoch's time include that no later epoch has? And if you measured the same loader "
            "twice, how far apart could the two figures be?",
            "For each candidate make the loader, let one epoch pass, then time several whole epochs and take their median. "
            "Of the candidates whose median is within 5 % of the smallest, return the smallest number.",
            "Take `statistics.median` of five epochs' times. Each is `clock_ms(device)` after a `for _ in loader: pass`, "
            "less the one before it. Then `min(n for n, ms in times.items() if ms <= 1.05 * min(times.values()))`.",
        ),
        mistakes=MistakesFile(__package__, names),
        explain=explain.workers,
    ),
)
