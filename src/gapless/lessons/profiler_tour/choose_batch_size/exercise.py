"""Lesson 01: the exercise ``choose_batch_size``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Teaching
from . import cases, explain, right, slow, stage
from .mistakes import BATCHES

EXERCISE = Exercise(
    name="choose_batch_size",
    slow=slow.choose_batch_size,
    cases=cases.batch_cases,
    asked=Asked(ask=stage.ask_batch),
    right=Right(function=right.right_choose_batch_size),
    checks=(Values(3),),
    teaching=Teaching(
        hints=(
            "Which do you want, a busy GPU or more samples a second? Compute each candidate's samples a second.",
            "Throughput is batch size divided by step time. It rises with the batch and then flattens: beyond that point a "
            "larger batch costs memory and gains nothing.",
            "Collect `batch / measure(batch).step_ms` for those that fit; return the smallest batch whose value is at least "
            "0.95 of the largest. The candidates may come in any order.",
        ),
        mistakes=BATCHES,
        explain=explain.batch,
    ),
)
