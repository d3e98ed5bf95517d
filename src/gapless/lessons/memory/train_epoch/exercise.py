"""Lesson 08: the exercise ``train_epoch``."""

from __future__ import annotations

from ....course.exercise import Exercise
from . import cases, explain, judged, mistakes, right, slow, stage

EXERCISE = Exercise(
    name="train_epoch",
    slow=slow.train_epoch,
    right=right.right_train_epoch,
    cases=cases.epoch_cases,
    ask=stage.ask_epoch,
    see=judged.seen,
    truth_on_device=True,
    trial=cases.EPOCH_TRIAL,
    mistakes=mistakes.EPOCHS,
    explain=explain.epoch,
    relative_tolerance=1e-3,
    points={"values": 4, "peak_bytes": 2},
    max_peak_ratio=0.6,
    max_read_back_bytes=2**20,  # a report may be on the host
    step_is="an epoch",
    advice={"peak_bytes": "These lines made it; who still refers to it? A list, a closure, an error's traceback, a hook "
                          "that is never removed?"},
    hints=(
        "After which steps does the memory grow: after all, after a look at the validation data, after a failure? And does "
        "it come down when the epoch is over?",
        "Four things hold on to tensors: the list of predictions, the hook's list, the losses on the validation data, and "
        "the errors. The sum of the losses is not among them: the backward pass has freed what their graphs had saved. Ask "
        "for each of the four what the report needs of it.",
        "`prediction.argmax(1)` in place of the prediction; `output.detach().abs().mean()` in the hook, and "
        "`handle.remove()` at the end, in a `finally`; `with torch.no_grad():` around the look at the validation data; "
        "`str(error)` in place of the error.",
    ),
)
