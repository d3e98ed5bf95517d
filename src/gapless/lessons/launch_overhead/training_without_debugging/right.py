"""Lesson 06: which debug aids are to be turned off."""

from __future__ import annotations

from .cases import COSTLY
from .stage import Training


def right_training_without_debugging(training: Training) -> list[str]:
    """Those that cost something and that nobody needs, as the case has it."""
    return [name for name in training.aids if training._kinds[name] in COSTLY]
