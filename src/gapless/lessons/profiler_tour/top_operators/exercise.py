"""Lesson 01: the exercise ``top_operators``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Teaching
from .. import stage
from . import cases, explain, right, slow
from .mistakes import OPERATORS

EXERCISE = Exercise(
    name="top_operators",
    slow=slow.top_operators,
    cases=cases.operator_cases,
    asked=Asked(ask=stage.ask_trace),
    right=Right(function=right.right_top_operators, absolute_tolerance=1e-3),
    checks=(Values(4),),
    teaching=Teaching(
        hints=(
            "The function you were given adds up the time that the *host* spent in an operator. Which time does "
            "the exercise ask for, and when does that work run?",
            "A kernel and the runtime call that launched it have the same `args[\"correlation\"]`. The kernel counts in the "
            "total of all operators around that call, on the same `span.thread`.",
            "First a dict: correlation → µs of work. Then, for each runtime call with an entry, the operators with "
            "`op.thread == call.thread and op.start_us <= call.start_us < op.end_us`: total for all of them, self for the "
            "one that starts last. Operators that launched nothing count their calls too.",
        ),
        mistakes=OPERATORS,
        explain=explain.operators,
    ),
)
