"""Lesson 03: the exercise ``step_time_metric``."""

from __future__ import annotations

from ....course.checks import Values, Waits
from ....course.exercise import Asked, Exercise, Measurement, Teaching
from .. import cases as shared_cases
from ..advice import MADE_ON_THE_HOST
from ..workload import LABELS
from . import cases, explain, mistakes, slow, stage

EXERCISE = Exercise(
    name="step_time_metric",
    slow=slow.step_time_metric,
    cases=cases.time_cases,
    asked=Asked(ask=stage.ask_step_time),
    measurement=Measurement(trial=shared_cases.TIME_TRIAL, assumptions=LABELS, busy_ms=40.0, kernels_beside=16),
    checks=(
        Values(2),
        Waits(2, advice={
            "to": (
                f"{MADE_ON_THE_HOST}. Either the state stays on the CPU, or the update is given what a kernel takes along "
                "without a copy (the question behind exercise 1)"),
            "item": (
                "the NaN check asks on the device where the value lies. A value on the CPU is asked there, and nobody "
                "waits"),
        }),
    ),
    teaching=Teaching(
        hints=(
            "The step time is measured on the host, and its mean is read on the host. Why should the "
            "metric be on the device?",
            "A metric on the CPU never waits. Under DDP its `compute` gathers the state of all processes, which is an "
            "error in a group for GPUs only. Which argument of every metric switches the gathering off?",
            "`MeanMetric(sync_on_compute=False)`, and no `.to(device)`. For the mean over all processes, keep the state on "
            "the device instead, in a subclass whose `update` makes a zero-dimensional CPU tensor of "
            "the float. A kernel gets such a tensor by value, and its NaN check runs on the CPU.",
        ),
        mistakes=mistakes.STEP_TIME,
        explain=explain.step_time,
    ),
)
