"""Lesson 03: the exercise ``update_loss``."""

from __future__ import annotations

from ....course.checks import Values, Waits
from ....course.exercise import Asked, Exercise, Measurement, Teaching
from .. import cases as shared_cases
from ..advice import MADE_ON_THE_HOST
from ..workload import LABELS
from . import cases, explain, mistakes, slow, stage

EXERCISE = Exercise(
    name="update_loss",
    slow=slow.update_loss,
    cases=cases.loss_cases,
    asked=Asked(ask=stage.ask_update_loss),
    measurement=Measurement(trial=shared_cases.LOSS_TRIAL, assumptions=LABELS, busy_ms=40.0),
    checks=(
        Values(2),
        Waits(2, at_most=2, advice={
            "to": (
                f"{MADE_ON_THE_HOST}. Fill a tensor on the device instead: then the number is an argument of the kernel"),
            "item": (
                "two of these are the NaN check's: that is the next exercise, and they may stay. Any other makes a "
                "Python number of a tensor (`.item()`, `float()`, `if`)"),
        }),
    ),
    teaching=Teaching(
        hints=(
            "Three waits: one copies something *to* the device, two bring something back. Which number "
            "is on the host here, although the device needs it?",
            "`batch` is a Python number. TorchMetrics makes a tensor of it on the host and copies the tensor: "
            "`torch.as_tensor(batch, device=…)`. Which PyTorch function makes the tensor on the device instead, and "
            "passes the number to the kernel that fills it?",
            "`torch.full_like(loss, batch)` has the loss's shape, dtype and device. (`torch.tensor(batch, device=…)` "
            "copies, as before.) The two waits of the NaN check stay: they are the next exercise.",
        ),
        mistakes=mistakes.UPDATE_LOSS,
        explain=explain.update_loss,
    ),
)
