"""A lesson with two exercises on plain CPU tensors, with the interface of gapless.lessons, for tests of grading."""

import numpy as np
import torch

from gapless.course.evidence import Case
from gapless.course.exercise import Exercise, Lesson


def _cases(seed):
    numbers = np.random.default_rng(seed)
    return [Case(f"random {i}", {"x": numbers.normal(size=7).astype(np.float32)}, needs_grad=("x",)) for i in range(3)]


def slow_double(x):
    return torch.stack([2 * x[i] for i in range(len(x))])


def slow_square(x):
    return torch.stack([x[i] * x[i] for i in range(len(x))])


def _exercise(name, slow):
    return Exercise(name, slow, _cases, {"values": 2.0, "step_time": 1.0}, hints=("one", "two", "three"),
                    step=lambda function, device: lambda: function(torch.ones(100, device=device)), max_time_ratio={"step_time": 0.1})


LESSON = Lesson("77_toy", "Toy", {"double": _exercise("double", slow_double), "square": _exercise("square", slow_square)},
                lambda: {"torch": torch, "nn": torch.nn, "F": torch.nn.functional})
LESSONS = {LESSON.id: LESSON}


def find_lesson(lesson_id):
    return LESSONS[lesson_id]
