"""Lesson 01: the exercise ``source_of``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Teaching
from .. import stage
from . import cases, explain, right, slow
from .mistakes import SOURCES

EXERCISE = Exercise(
    name="source_of",
    slow=slow.source_of,
    cases=cases.source_cases,
    asked=Asked(ask=stage.ask_trace),
    right=Right(function=right.right_source_of, absolute_tolerance=1e-3),
    checks=(Values(4),),
    teaching=Teaching(
        hints=(
            "When the kernel runs, the host is already somewhere else. At which moment did the host launch it?",
            "Find the runtime call with the kernel's correlation. The Python frames around it on the same thread are "
            "nested. Take the innermost for which `line_of` gives a line.",
            "The backward pass launches from its own thread, without Python. If the launching thread has no line, "
            "take the innermost frame around that moment on the thread of the `ProfilerStep#` blocks.",
        ),
        mistakes=SOURCES,
        explain=explain.source,
    ),
)
