"""Lesson 07: the exercise ``predicted_gain``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Teaching
from ....course.mistakes import MistakesFile
from .. import stage
from . import cases, explain, right, slow

EXERCISE = Exercise(
    name="predicted_gain",
    slow=slow.predicted_gain,
    cases=cases.gain_cases,
    asked=Asked(ask=stage.ask_reckoned),
    right=Right(function=right.right_predicted_gain),
    checks=(Values(4),),
    teaching=Teaching(
        hints=(
            "Why does such a kernel take time: arithmetic, or bytes? Which of these bytes would no longer move if all "
            "were one kernel?",
            "Before: everything that all kernels read and write. After: what comes from outside, read once, and what is "
            "needed afterwards, written once. A result that a later kernel reads stays in a register.",
            "Keep a set of the names made so far. A read of a name in the set costs nothing. A read of another name "
            "costs its bytes, once. Then add the kernel's writes to the set. Each tensor of `outputs` that a kernel "
            "writes costs its bytes once, however often it is written or named. If nothing is left to move, return 1.0.",
        ),
        mistakes=MistakesFile(__package__, stage.names),
        explain=explain.gain,
    ),
)
