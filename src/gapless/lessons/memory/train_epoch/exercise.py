"""Lesson 08: the exercise ``train_epoch``."""

from __future__ import annotations

from ....course.checks import PeakBytes, Values, Waits
from ....course.exercise import Asked, Exercise, Measurement, Right, Teaching
from . import cases, explain, judged, mistakes, right, slow, stage

EXERCISE = Exercise(
    name="train_epoch",
    slow=slow.train_epoch,
    cases=cases.epoch_cases,
    asked=Asked(ask=stage.ask_epoch, see=judged.seen),
    right=Right(function=right.right_train_epoch, on_device=True, relative_tolerance=1e-3),
    measurement=Measurement(
        trial=cases.EPOCH_TRIAL,
        step_is="an epoch",
        # a report may be on the host
        max_read_back_bytes=2**20,
    ),
    checks=(
        Values(3),
        PeakBytes(2, at_most=0.6, advice=(
            "These lines made it. What still refers to it: a list, a closure, an error's traceback, a hook that is "
            "never removed?")),
        # the report may be read, where all steps are over
        Waits(1, at_most=2, advice={"item": (
            "reading a number in a step makes the host wait for the device. Keep a detached tensor with one element, "
            "which holds as little. You may read the report once at the end")}),
    ),
    teaching=Teaching(
        hints=(
            "After which steps does the memory grow: after all, after a look at the validation data, after a failure? "
            "Does it fall when the epoch is over?",
            "Four things hold tensors: the list of predictions, the hook's list, the losses on the validation data, and "
            "the errors. The sum of the losses does not, because the backward pass has freed what its graphs had saved. "
            "For each of the four, ask what the report needs of it.",
            "`prediction.argmax(1)` in place of the prediction. `output.detach().abs().mean()` in the hook, and "
            "`handle.remove()` at the end, in a `finally`. `with torch.no_grad():` around the look at the validation "
            "data. `str(error)` in place of the error.",
        ),
        mistakes=mistakes.EPOCHS,
        explain=explain.epoch,
    ),
)
