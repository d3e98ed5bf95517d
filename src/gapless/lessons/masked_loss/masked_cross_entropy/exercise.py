"""Lesson 02: the exercise ``masked_cross_entropy``."""

from __future__ import annotations

from ....course.exercise import Exercise
from ....course.mistakes import MistakesFile
from .. import cases as shared_cases
from ..stage import names
from ..workload import LABELS
from . import cases, explain, slow

EXERCISE = Exercise(
    name="masked_cross_entropy",
    slow=slow.masked_cross_entropy,
    cases=cases.cross_entropy_cases,
    mistakes=MistakesFile(__package__, names),
    explain=explain.entropy,
    full=cases.full_cross_entropy,
    trial=shared_cases.CROSS_ENTROPY_TRIAL,
    points={"values": 2, "syncs": 2, "step_time": 2},
    max_time_ratio={"step_time": 0.6},
    assumptions=LABELS,
    hints=(
        "`x[mask]` is a `nonzero` in disguise: count, wait, select, gather; and the backward pass does it again. The "
        "rows that are picked out are needed for one thing only. Can the loss itself leave pixels out?",
        "Look at the arguments of `torch.nn.functional.cross_entropy`, and at the shapes it takes: B×C×H×W logits with "
        "B×H×W labels need no permuting.",
        "`ignore_index` names the label that adds nothing to the sum and is not counted in the mean.",
    ),
)
