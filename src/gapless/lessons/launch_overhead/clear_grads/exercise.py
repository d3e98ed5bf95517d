"""Lesson 06: the exercise ``clear_grads``."""

from __future__ import annotations

from ....course.checks import Kernels, Values
from ....course.exercise import Asked, Exercise, Measurement, Right, Teaching
from . import cases, mistakes, slow
from .right import right_clear_grads
from .stage import ask_clear_grads

EXERCISE = Exercise(
    name="clear_grads",
    slow=slow.clear_grads,
    cases=cases.clearing_cases,
    asked=Asked(ask=ask_clear_grads),
    right=Right(function=right_clear_grads),
    measurement=Measurement(trial=cases.CLEARING_TRIAL),
    checks=(
        Values(2),
        Kernels(1, fewer=2 * (cases.FEWEST - 5), advice=(
            "Each zero is a kernel, and so is each addition to it in the backward pass. A gradient that is not there "
            "needs neither.")),
    ),
    teaching=Teaching(
        hints=(
            "What does an optimizer do with a parameter whose gradient is zero? And with one that has none?",
            "`parameter.grad` does not have to be a tensor. Which value says \"there is no gradient\"?",
            "Set `parameter.grad = None` for each of them, whatever it was.",
        ),
        mistakes=mistakes.CLEARING_MISTAKES,
        explain=mistakes.explain,
    ),
)
