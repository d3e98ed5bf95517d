"""A lesson with two exercises that cost next to nothing, with the interface of gapless.lessons, for tests of grading."""

import numpy as np
import torch

from gapless.course.evidence import Case
from gapless.course.exercise import Exercise, Lesson, Trial

from .stage import names


def _vectors(rng, count, length):
    return [Case(f"random {i}", {"x": rng.normal(size=length).astype(np.float32)}) for i in range(count)]


def slow_double(x):
    return torch.stack([2 * x[i] for i in range(len(x))])


def slow_square(x):
    return torch.stack([x[i] * x[i] for i in range(len(x))])


def _exercise(name, slow):
    return Exercise(name, slow, lambda seed: _vectors(np.random.default_rng(seed), 3, 7), {"values": 2.0, "step_time": 1.0},
                    hints=("one", "two", "three"), trial=Trial(lambda rng, count: _vectors(rng, count, 30)),
                    max_time_ratio={"step_time": 0.2})


LESSON = Lesson("77_toy", "Toy", {"double": _exercise("double", slow_double), "square": _exercise("square", slow_square)}, names)
LESSONS = {LESSON.id: LESSON}


def find_lesson(lesson_id):
    return LESSONS[lesson_id]
