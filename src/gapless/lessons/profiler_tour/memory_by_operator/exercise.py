"""Lesson 01: the exercise ``memory_by_operator``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Teaching
from .. import stage
from . import cases, explain, right, slow
from .mistakes import MEMORY

EXERCISE = Exercise(
    name="memory_by_operator",
    slow=slow.memory_by_operator,
    cases=cases.memory_cases,
    asked=Asked(ask=stage.ask_trace),
    right=Right(function=right.right_memory_by_operator),
    checks=(Values(4),),
    teaching=Teaching(
        hints=(
            "A `[memory]` event with negative bytes is a free. Which of the four numbers should see it?",
            "For each change of the GPU's memory (`Device Type` 1): which operators are around that moment on the same "
            "thread? All of them count it, but only the innermost counts it as its own. An event's thread is "
            "`(str(event[\"pid\"]), str(event[\"tid\"]))`.",
            "`around = [op for op in operators if op.thread == thread and op.start_us <= event[\"ts\"] < op.end_us]`. Add "
            "the bytes to `size_increase_bytes` of all, and to `allocation_bytes` if they are positive. Do the same for the "
            "`self_…` numbers of `max(around, key=lambda op: op.start_us)`.",
        ),
        mistakes=MEMORY,
        explain=explain.memory,
    ),
)
