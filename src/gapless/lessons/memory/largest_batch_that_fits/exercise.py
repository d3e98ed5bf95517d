"""Lesson 08: the exercise ``largest_batch_that_fits``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Setting, Teaching
from . import cases, explain, judged, mistakes, right, slow, stage

EXERCISE = Exercise(
    name="largest_batch_that_fits",
    slow=slow.largest_batch_that_fits,
    cases=cases.fitting_cases,
    asked=Asked(ask=stage.ask_largest_batch, see=explain.seen, verify=judged.verified),
    right=Right(function=right.right_largest_batch, on_device=True),
    setting=Setting(valueless=True),
    checks=(Values(5),),
    teaching=Teaching(
        hints=(
            "Which errors are about memory, and which are not? What still refers to the failed step's tensors when the next "
            "trial begins? And what does a second call find that the first did not?",
            "Write a separate function `fits(batch)` that empties the cache, calls the step twice in a `try`, and "
            "returns True or False. When it has returned, its error is gone, and the frames with it. Then double from 1 "
            "while it fits, at most up to `most`. Halve the gap between the last that fitted and the first that did not.",
            "`if not fits(1)`: print a line and return 0. Then note `torch.accelerator.memory_allocated()`, call "
            "`step(1)` once more, and raise ValueError if it has grown. `low, high = 1, 2`; `while high <= most and "
            "fits(high): low, high = high, 2 * high`; `high = min(high, most + 1)`. Then bisect until `high - low` is 1. "
            "Return `low`.",
        ),
        mistakes=mistakes.SEARCHES,
        explain=explain.largest_batch,
    ),
)
