"""Lesson 06: which debug aids to turn off."""

from __future__ import annotations

from ....course.evidence import Case
from .cases import costly
from .stage import ALL_TOLD, NONE, OFF, TRIED, Run, Training


def wanted_training_without_debugging(case: Case) -> dict[str, str]:
    """Those that cost something and that nobody needs, as the case has it: a real clock may say something else."""
    return {OFF: ", ".join(sorted(costly(case))) or NONE, TRIED: ALL_TOLD}


def right_training_without_debugging(training: Training) -> list[str]:
    """By the mean of the steps after the first, each aid alone; and by the log of all the others."""

    def mean_ms(run: Run) -> float:
        return sum(run.step_ms[1:]) / len(run.step_ms[1:])

    most_ms, log = 1.1 * mean_ms(training.run([])), training.run(training.aids).log
    return [aid for aid in training.aids if mean_ms(training.run([aid])) > most_ms
            and training.run([other for other in training.aids if other != aid]).log == log]
