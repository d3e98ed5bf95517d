"""Lesson 04: the exercise ``prefetch``."""

from __future__ import annotations

from ....course.checks import StepTime, Values, Waits
from ....course.exercise import Asked, Exercise, Measurement, Teaching
from . import cases, slow
from .explain import explain_prefetch
from .look import BATCHES
from .stage import ask_prefetch

EXERCISE = Exercise(
    name="prefetch",
    slow=slow.prefetch,
    cases=cases.prefetch_cases,
    asked=Asked(ask=ask_prefetch),
    measurement=Measurement(
        trial=cases.PREFETCH_TRIAL,
        full=cases.full_prefetch,
        step_is=f"an epoch of {BATCHES} batches with one read of the loss in each step",
        own_waits=BATCHES,
        least_bytes_ratio=1.0,
    ),
    checks=(
        Values(2),
        Waits(2, at_most=BATCHES, advice={
            "to": (
                "a copy to the device waits unless its memory is pinned *and* you say `non_blocking=True`; a loader "
                "pins only the types that it knows, so check (`is_pinned`)"),
            "item": (
                f"the loop reads its loss in every step, and these {BATCHES} waits may stay; any other read comes from "
                "your function"),
        }),
        # On the simulated cards it is 0.6 to 0.75; with the copies on the loop's own stream, 1.
        StepTime(2, at_most=0.83, advice=(
            "The copies do not overlap with the loop's kernels. Put them on their own stream, queue the next batch's "
            "copy before you yield this batch, and let the loop's stream wait only for this batch's copy, not for "
            "everything on the other stream")),
    ),
    teaching=Teaching(
        hints=(
            "While the device computes with a batch, its copy engine has nothing to do. Which copy could it make "
            "meanwhile, and when must you queue it: before you yield this batch, or after?",
            "Queue the copy of batch i + 1 on your own stream (`with side:`), from pinned memory and with "
            "`non_blocking=True`. Only then yield batch i. Before the yield, make the loop's stream wait for batch i's "
            "copy, by an event recorded after that copy. After the loop you still hold one batch.",
            "Keep `held = (batch, side.record_event())`. For each batch of the loader: copy it inside `with side:`. If "
            "something is held, let `loop = torch.accelerator.current_stream()`, then `loop.wait_event(event)`, "
            "`tensor.record_stream(loop)` for each of its tensors, and `yield` it. Then hold the new one. Keep an error of "
            "the loader until you have yielded the batch that you hold.",
        ),
        explain=explain_prefetch,
    ),
)
