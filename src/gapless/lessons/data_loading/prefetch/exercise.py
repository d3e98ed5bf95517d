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
                "a copy to the device waits unless its memory is pinned *and* it is told `non_blocking=True`; a "
                "loader pins only what it knows, so look (`is_pinned`)"),
            "item": (
                f"the loop reads its loss in every step, and these {BATCHES} waits may stay; any other read is "
                "yours"),
        }),
        # On the simulated cards it is 0.6 to 0.75; with the copies on the loop's own stream, 1.
        StepTime(2, at_most=0.83, advice=(
            "The copies do not run beside the loop's kernels. They have to be on a stream of their own; "
            "the next batch's has to be queued before this batch is yielded; and what the loop's stream "
            "waits for is this batch's copy alone, not all that is queued on the other stream")),
    ),
    teaching=Teaching(
        hints=(
            "While the device computes with a batch, its copy engine has nothing to do. Which copy could it make "
            "meanwhile, and when would that have to be queued: before this batch is yielded, or after?",
            "Queue the copy of batch i + 1 on a stream of your own (`with side:`), from pinned memory and with "
            "`non_blocking=True`, and only then yield batch i. Before it is yielded the loop's stream has to wait for "
            "*its* copy: an event recorded behind the copy. After the loop one batch is still in your hands.",
            "Keep `held = (batch, side.record_event())`. For each batch of the loader: copy it inside `with side:`; then, "
            "outside, if something is held, `torch.accelerator.current_stream().wait_event(event)`, "
            "`tensor.record_stream(…)` for each of its tensors, `yield`; then hold the new one. An error of the loader is "
            "kept until what is held has been yielded.",
        ),
        explain=explain_prefetch,
    ),
)
