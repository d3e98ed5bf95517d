"""Lesson 00: the host's clock and the device's, why a stopwatch can be wrong by a factor of ten, and what makes a host wait.

The mistake that it explains is in Chaim Rand's "PyTorch Model Performance Analysis and Optimization, Part "
                                                "3" (2023); programs
and code are our own.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...course.exercise import Lesson, Program
from . import stage
from .predict_step_ms.exercise import EXERCISE as PREDICT_STEP_MS
from .quick import QUICK
from .time_step.exercise import EXERCISE as TIME_STEP
from .train import slow
from .train.exercise import EXERCISE as TRAIN
from .workload import ITERATIONS, WIDTH, rows_for, training_run

EXERCISES = (TIME_STEP, TRAIN, PREDICT_STEP_MS)


def programs(fixed: dict[str, Callable]) -> list[Program]:
    """The training loop with its unoptimised logging, then with one wait after another removed."""

    def program(name: str, function: Callable) -> Program:
        return Program(name, lambda device: training_run(function, device), "–")

    return [
        program("`if`, `.item()` and a text, each step", slow.train),
        program("the `if` uses what `.item()` has read", slow.train_without_if),
        program("so does the text", slow.train_with_one_read),
        program("`train` as fixed in exercise 2", fixed["train"]),
    ]


def size_in_words(device: torch.device) -> str:
    """Such as "30 iterations (one step of the table) of a network of width 1024, batch 1024"."""
    return f"{ITERATIONS} iterations (one step of the table) of a network of width {WIDTH}, batch {rows_for(device)}"


LESSON = Lesson(
    id="00_two_clocks",
    title="Two clocks",
    exercises={exercise.name: exercise for exercise in EXERCISES},
    names=stage.names,
    programs=programs,
    size=size_in_words,
    quick=QUICK,
)
