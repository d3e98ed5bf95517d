"""Lesson 09: its exercises and headline."""

from __future__ import annotations

from collections.abc import Callable

from ...course.exercise import Lesson, Program
from . import functions
from .accumulating_exercise import TRAIN_EPOCH
from .dealing_exercise import MAKE_BATCHES
from .logging_exercise import LOG_EPOCH
from .main_exercise import MAIN
from .naming_exercise import FIND_STRAGGLER
from .quick import QUICK
from .stage import names
from .workload import STEPS, paced_step, size_in_words
from .wrap_exercise import WRAP

EXERCISES = (MAIN, FIND_STRAGGLER, MAKE_BATCHES, TRAIN_EPOCH, WRAP, LOG_EPOCH)


def programs(fixed: dict[str, Callable]) -> list[Program]:
    """The epoch as dealt out at first, and as the learner does."""
    return [Program(name, lambda device, deal=deal: paced_step(deal, device), "no figure", steps=STEPS)
            for name, deal in (("batches in file order", functions.make_batches),
                               ("equal work for all", fixed["make_batches"]))]


LESSON = Lesson(
    id="09_data_parallel",
    title="Data parallel",
    exercises={exercise.name: exercise for exercise in EXERCISES},
    names=names,
    programs=programs,
    size=size_in_words,
    article="the talk",
    quick=QUICK,
    card="a10g",
)
