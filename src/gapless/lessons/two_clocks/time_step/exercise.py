"""Lesson 00: the exercise ``time_step``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Setting, Teaching
from . import cases, explain, right, slow, stage

EXERCISE = Exercise(
    name="time_step",
    slow=slow.time_step,
    cases=cases.stopwatch_cases,
    asked=Asked(ask=stage.ask_time_step, see=cases.see_stopwatch),
    right=Right(function=right.right_time_step, on_device=True, relative_tolerance=0.01),
    setting=Setting(
        # only time matters
        valueless=True,
    ),
    checks=(Values(5),),
    teaching=Teaching(
        hints=(
            "When `step()` returns, the host has queued the step's work. Has the device done it? Ask this at both ends of "
            "the measurement: when the clock starts, and when it stops.",
            "`synchronize(device)` makes the host wait until the device has done everything in the queue. You need it "
            "twice: before you start the clock, so that you do not count earlier work, and before you stop it. You do not "
            "need it in between. (Two events of `torch.Event(enable_timing=True)` work too.)",
            "In this order: `warmup` calls of `step()`; `synchronize(device)`; start the clock; `steps` calls of `step()`; "
            "`synchronize(device)`; stop the clock. Return the difference, divided by `steps`.",
        ),
        explain=explain.time_step,
    ),
)
