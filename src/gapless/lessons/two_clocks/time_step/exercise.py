"""Lesson 00: the exercise ``time_step``."""

from __future__ import annotations

from ....course.exercise import Exercise
from . import cases, explain, right, slow, stage

EXERCISE = Exercise(
    name="time_step",
    slow=slow.time_step,
    right=right.right_time_step,
    truth_on_device=True,
    valueless=True,  # only time matters
    cases=cases.stopwatch_cases,
    ask=stage.ask_time_step,
    see=cases.see_stopwatch,
    explain=explain.time_step,
    relative_tolerance=0.01,
    points={"values": 5},
    hints=(
        "When `step()` returns, the host has queued the step's work. Who says that the device has done it? Ask this at "
        "both ends of the measurement: when the clock starts, and when it stops.",
        "`synchronize(device)` makes the host wait until the device has done all that is queued. You need it twice: "
        "before you start the clock, so that no earlier work is counted, and before you stop it. Not in between. (Two "
        "events of `torch.Event(enable_timing=True)` do it too.)",
        "In this order: `warmup` calls of `step()`; `synchronize(device)`; start the clock; `steps` calls of `step()`; "
        "`synchronize(device)`; stop the clock. Return the difference, divided by `steps`.",
    ),
)
