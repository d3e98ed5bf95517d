"""Lesson 02: the exercise ``masked_cross_entropy``."""

from __future__ import annotations

from ....course.checks import StepTime, Values, Waits
from ....course.exercise import Exercise, Measurement, Teaching
from ....course.mistakes import MistakesFile
from .. import cases as shared_cases
from ..stage import names
from ..workload import LABELS
from . import cases, explain, slow

EXERCISE = Exercise(
    name="masked_cross_entropy",
    slow=slow.masked_cross_entropy,
    cases=cases.cross_entropy_cases,
    measurement=Measurement(trial=shared_cases.CROSS_ENTROPY_TRIAL, full=cases.full_cross_entropy, assumptions=LABELS),
    checks=(Values(2), Waits(2), StepTime(2, at_most=0.6)),
    teaching=Teaching(
        hints=(
            "`x[mask]` is a hidden `nonzero`: count, wait, select, gather. The backward pass does it again. The "
            "selected rows have only one use. Can the loss itself leave pixels out?",
            "Look at the arguments of `torch.nn.functional.cross_entropy`, and at the shapes it takes: B×C×H×W logits with "
            "B×H×W labels need no permuting.",
            "`ignore_index` names the label that adds nothing to the sum and is not counted in the mean.",
        ),
        mistakes=MistakesFile(__package__, names),
        explain=explain.entropy,
    ),
)
