"""Lesson 00: the exercise ``train``."""

from __future__ import annotations

from ....course.checks import StepTime, Values, Waits
from ....course.exercise import Asked, Exercise, Measurement, Right, Setting, Teaching
from ....course.mistakes import MistakesFile
from ..stage import names
from ..workload import CHECKED
from . import cases, explain, slow, stage

EXERCISE = Exercise(
    name="train",
    slow=slow.train,
    cases=cases.training_cases,
    asked=Asked(ask=stage.ask_train, see=cases.see_training),
    right=Right(on_device=True),
    setting=Setting(behind=True),
    measurement=Measurement(
        trial=cases.TRAINING_TRIAL,
        full=cases.full_training,
        step_is=f"a call of {CHECKED} training steps",
    ),
    checks=(
        Values(3),
        # Read every 6: two waits, and one more for an answer that reads in the background.
        Waits(3, at_most=3),
        # Wide, for a real clock's noise: without waits it is 0.72 on the simulated A10G, with one a training step 0.82 at
        # full size and 0.91 in the trial, whose steps begin with a shorter kernel.
        StepTime(2, at_most=0.85),
    ),
    teaching=Teaching(
        hints=(
            "Three lines of the loop need a value from the device: the `if`, the `.item()`, the text of the log. Which of "
            "them needs it immediately, and which could get it a few steps later?",
            "None of them does: all three only serve the log, and the log can come a little later. Keep each step's "
            "`loss.detach()` in a list, which does not wait. After `every` steps copy them all to the host together. Then "
            "compare, add up and log, line by line.",
            "Every `every` steps, and once more after the loop if something is left, call `values = "
            "torch.stack(kept).tolist()`: one wait for all of them. Then for each value: compare it, `total += value`, and "
            "log its line with the number of *its* step.",
        ),
        mistakes=MistakesFile(__package__, names),
        explain=explain.training,
    ),
)
