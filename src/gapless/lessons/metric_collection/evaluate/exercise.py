"""Lesson 03: the exercise ``evaluate``."""

from __future__ import annotations

from ....course.checks import HostTime, Values, Waits
from ....course.exercise import Asked, Exercise, Measurement, Right, Teaching
from .. import cases as shared_cases
from .. import explain
from ..workload import LABELS
from . import cases, mistakes, slow, stage

EXERCISE = Exercise(
    name="evaluate",
    slow=slow.evaluate,
    cases=cases.evaluation_cases,
    asked=Asked(ask=stage.ask_evaluate, on_device=True),
    right=Right(relative_tolerance=1e-5, absolute_tolerance=1e-6),
    measurement=Measurement(trial=shared_cases.EVALUATION_TRIAL, assumptions=LABELS, busy_ms=40.0),
    checks=(
        Values(2),
        Waits(3, advice={
            "_unique2": (
                "the number of distinct values is known only to the device. It is counted only to validate the labels "
                "and predictions, which is not necessary in every batch"),
            "nonzero": (
                "how many elements a mask picks is known only to the device, and what is ignored is taken out with a "
                "mask. Leave it in, and count it where it does no harm"),
        }),
        HostTime(1, at_most=0.4),
    ),
    teaching=Teaching(
        hints=(
            "There are three causes, and each occurs four times a batch. Share the state first. Then ask of each cause "
            "what it is for: `unique`, indexing with a mask, `bincount`.",
            "`unique` only validates: use `validate_args=False`, or give the logits instead of integers. The mask is for "
            "`ignore_index`: put ignored images into their own class, and drop that class from the counts. "
            "`bincount` reads back its largest value to know its length. `scatter_add_` into zeros of known length "
            "does not. TorchMetrics has no switch for the last two causes.",
            "Count pairs: `torch.where(targets == IGNORE, CLASSES, targets) * (CLASSES + 1) + predictions`, "
            "`scatter_add_` of ones into (CLASSES + 1)² zeros, reshape, and cut off the last row and the last column "
            "(`[:CLASSES, :CLASSES]`; the column is empty). This confusion matrix gives true positives "
            "(diagonal), false positives (column sums less the diagonal), false negatives (row sums less the diagonal). "
            "Either compute the averages from them, or let TorchMetrics: a subclass whose `update` ends in "
            "`self._update_state(tp, fp, tn, fn)`.",
        ),
        mistakes=mistakes.EVALUATE,
        explain=explain.averages,
    ),
)
