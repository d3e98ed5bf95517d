"""Lesson 02: the exercise ``sparse_head_loss``."""

from __future__ import annotations

from ....course.checks import StepTime, Values
from ....course.exercise import Exercise, Measurement, Teaching
from ....course.mistakes import MistakesFile
from ..stage import names
from . import cases, explain, slow

EXERCISE = Exercise(
    name="sparse_head_loss",
    slow=slow.sparse_head_loss,
    cases=cases.head_cases,
    # rows selected by a mask: hidden, target, and one more if a loss is masked
    measurement=Measurement(trial=cases.HEAD_TRIAL, full=cases.full_head, assumptions=cases.HEAD, right_waits=3),
    checks=(Values(2), StepTime(3, at_most=0.3)),
    teaching=Teaching(
        hints=(
            "Nothing waits here, but it is still slow: count the FLOPs. Only one row in sixteen has a label, but all "
            "rows are multiplied by the whole head. In which order should you select and multiply?",
            "Select the valid rows of `hidden` and of `target` first, then multiply. A boolean mask does it, at the "
            "cost of a wait or two. Measure whether the saved arithmetic is worth it. To avoid the wait, use a size "
            "that the host knows: `max_valid`.",
            "`torch.nonzero_static(mask, size=max_valid, fill_value=0)` returns positions and pads with 0. That is row "
            "0, which must not count twice. Replace the labels of the padding by `IGNORE` (padding starts at "
            "position `mask.sum()`: compare with `torch.arange`), and let `ignore_index` leave them out.",
        ),
        mistakes=MistakesFile(__package__, names),
        explain=explain.head,
    ),
)
