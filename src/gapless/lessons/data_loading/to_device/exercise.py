"""Lesson 04: the exercise ``to_device``."""

from __future__ import annotations

from ....course.checks import HostTime, Values, Waits
from ....course.exercise import Asked, Exercise, Measurement, Teaching
from ....course.mistakes import MistakesFile
from ..advice import COPY
from ..stage import names
from . import cases, slow, stage
from .explain import explain_batch

EXERCISE = Exercise(
    name="to_device",
    slow=slow.to_device,
    cases=cases.batch_cases,
    asked=Asked(ask=stage.ask_to_device, on_device=True),
    measurement=Measurement(
        trial=cases.BATCH_TRIAL,
        full=cases.full_batches,
        busy_ms=100.0,
        step_is="a call for each of four batches",
        least_bytes_ratio=1.0,
    ),
    checks=(
        Values(2),
        Waits(2, advice={
            "to": COPY,
            "_to_copy": COPY,
            "copy_": COPY,
        }),
        HostTime(1, at_most=0.5),
    ),
    teaching=Teaching(
        hints=(
            "Two conditions must hold so that the host does not wait for a copy: one for the call, one for the memory. "
            "Which of them does the given function meet?",
            "The memory has to be pinned (page-locked), or `non_blocking=True` changes nothing. A batch of a loader with "
            "`pin_memory=True` is pinned already; pin any other here. Give each batch its own pinned memory: "
            "when the function returns, the copy has not even begun.",
            "`batch.pin_memory().to(device, non_blocking=True)` for each tensor on the host. `pin_memory()` returns a "
            "pinned tensor unchanged, and PyTorch keeps the memory of a new one until its copy is done. A tensor that "
            "is already on the device cannot be pinned.",
        ),
        mistakes=MistakesFile(__package__, names),
        explain=explain_batch,
    ),
)
