"""Lessons for tests of grading, with the interface of gapless.lessons: one with two exercises that cost next to nothing, and
two that have an exercise many times, so that as many cells are graded at once."""

from dataclasses import replace

import numpy as np
import torch

from gapless.course.checks import StepTime, Values
from gapless.course.evidence import Case
from gapless.course.exercise import Exercise, Lesson, Measurement, Teaching, Trial
from gapless.lessons.convolutions.lesson import LESSON as CONVOLUTIONS
from gapless.lessons.data_loading.lesson import LESSON as DATA_LOADING
from gapless.lessons.kernel_fusion.lesson import LESSON as KERNEL_FUSION
from gapless.lessons.launch_overhead.lesson import LESSON as LAUNCH_OVERHEAD
from gapless.lessons.masked_loss.lesson import LESSON as MASKED_LOSS
from gapless.lessons.memory.lesson import LESSON as MEMORY
from gapless.lessons.metric_collection.lesson import LESSON as METRIC_COLLECTION

from .stage import names


def _vectors(rng, count, length):
    return [Case(f"random {i}", {"x": rng.normal(size=length).astype(np.float32)}) for i in range(count)]


def double(x):
    return torch.stack([2 * x[i] for i in range(len(x))])


def square(x):
    return torch.stack([x[i] * x[i] for i in range(len(x))])


def _exercise(name, slow):
    return Exercise(name, slow, lambda seed: _vectors(np.random.default_rng(seed), 3, 7),
                    (Values(2.0), StepTime(1.0, at_most=0.2)), Teaching(("one", "two", "three")),
                    measurement=Measurement(Trial(lambda rng, count: _vectors(rng, count, 30))))


LESSON = Lesson("77_toy", "Toy", {"double": _exercise("double", double), "square": _exercise("square", square)}, names, imported_late=())
_BACKGROUND = MASKED_LOSS.exercises["ignore_background"]
ATTEMPTS = Lesson("79_attempts", "Attempts", {name: replace(_BACKGROUND, name=name, measurement=replace(_BACKGROUND.measurement, busy_ms=10))
                                              for name in (f"attempt_{number}" for number in range(32))}, MASKED_LOSS.names)


def _many(lesson_id, lesson, count=8):
    """Each exercise of ``lesson`` as often as that, numbered."""
    exercises = {f"{name}_{number}": replace(exercise, name=f"{name}_{number}", teaching=replace(
        exercise.teaching, mistakes=(), stub=STUB.format(name, number)))
                 for name, exercise in lesson.exercises.items() for number in range(count)}
    return Lesson(lesson_id, "Attempts", exercises, lesson.names)


STUB = "# exercise: {0}_{1}\n{0}_{1} = None\n"
LESSONS = {lesson.id: lesson for lesson in (
    LESSON, ATTEMPTS, _many("78_loading", DATA_LOADING), _many("76_convolutions", CONVOLUTIONS), _many("75_memory", MEMORY),
    _many("74_launches", LAUNCH_OVERHEAD), _many("73_metrics", METRIC_COLLECTION), _many("72_functions", KERNEL_FUSION))}


def find_lesson(lesson_id):
    return LESSONS[lesson_id]
