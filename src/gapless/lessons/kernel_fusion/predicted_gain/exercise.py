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
            "What takes such a kernel its time: the arithmetic, or the bytes? Which of these bytes would nobody move if "
            "all was one kernel?",
            "Before: all that all kernels read and write. After: what comes from outside, read once; what is needed "
            "afterwards, written once. What one kernel writes and a later one reads stays in a register.",
            "Keep a set of what was made so far. A read of a name that is in it costs nothing; of one that is not, its "
            "bytes, once. A write costs its bytes where its name is in `outputs`. Then add the kernel's writes to the set. "
            "Nothing to move at all: 1.0.",
        ),
        mistakes=MistakesFile(__package__, stage.names),
        explain=explain.gain,
    ),
)
