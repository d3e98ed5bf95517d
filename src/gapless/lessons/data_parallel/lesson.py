"""Lesson 09: its exercises."""

from __future__ import annotations

from ...course.exercise import Lesson
from .dealing_exercise import MAKE_BATCHES
from .main_exercise import MAIN
from .naming_exercise import FIND_STRAGGLER
from .quick import QUICK
from .stage import names

EXERCISES = (MAIN, FIND_STRAGGLER, MAKE_BATCHES)

LESSON = Lesson(
    id="09_data_parallel",
    title="Data parallel",
    exercises={exercise.name: exercise for exercise in EXERCISES},
    names=names,
    quick=QUICK,
    card="a10g",
)
