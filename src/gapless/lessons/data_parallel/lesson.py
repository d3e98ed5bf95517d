"""Lesson 09: its exercises and headline."""

from __future__ import annotations

from collections.abc import Callable

from ...course.exercise import Lesson, Program
from .find_straggler.exercise import EXERCISE as FIND_STRAGGLER
from .log_epoch.exercise import EXERCISE as LOG_EPOCH
from .main.exercise import EXERCISE as MAIN
from .make_batches import slow
from .make_batches.exercise import EXERCISE as MAKE_BATCHES
from .quick import QUICK
from .stage import names
from .train_epoch.exercise import EXERCISE as TRAIN_EPOCH
from .workload import STEPS, paced_step, size_in_words
from .wrap.exercise import EXERCISE as WRAP

EXERCISES = (MAIN, FIND_STRAGGLER, MAKE_BATCHES, TRAIN_EPOCH, WRAP, LOG_EPOCH)


def programs(fixed: dict[str, Callable]) -> list[Program]:
    """The epoch with batches in file order, and with the learner's."""
    return [Program(name, lambda device, deal=deal: paced_step(deal, device), "–", steps=STEPS)
            for name, deal in (("batches in file order", slow.make_batches),
                               ("equal work for all", fixed["make_batches"]))]


LESSON = Lesson(
    id="09_data_parallel",
    title="Data parallel",
    exercises={exercise.name: exercise for exercise in EXERCISES},
    names=names,
    programs=programs,
    size=size_in_words,
    quick=QUICK,
    card="a10g",
)
