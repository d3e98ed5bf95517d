"""Lesson 05: the exercise ``largest_batch``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Teaching
from . import cases, explain, mistakes, right, slow, stage

EXERCISE = Exercise(
    name="largest_batch",
    slow=slow.largest_batch,
    cases=cases.largest_batch_cases,
    asked=Asked(ask=stage.ask_largest_batch),
    right=Right(function=right.right_largest_batch),
    checks=(Values(4),),
    teaching=Teaching(
        hints=(
            "If 512 samples fit, do you have to try 256? And what still holds the memory of a trial that failed?",
            "Keep two numbers: a size that fits, and one that does not. Try the middle, and move one of the two there. "
            "Catch only `torch.OutOfMemoryError`. Inside `except` the error is alive, and its traceback holds all "
            "tensors of the failed step. So only note there that it failed.",
            "Count in eights: `low, high = 0, most // 8 + 1`. While `high - low > 1`, try `8 * ((low + high) // 2)`. Set "
            "a variable `fits` in `try` and in `except`, and move `low` or `high` after them. Return `8 * low`.",
        ),
        mistakes=mistakes.LARGEST_MISTAKES,
        explain=explain.largest_batch,
    ),
)
