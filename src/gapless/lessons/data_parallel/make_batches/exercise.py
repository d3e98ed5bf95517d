"""Lesson 09: the exercise ``make_batches``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Teaching
from ....course.mistakes import MistakesFile
from ..stage import names
from . import cases, judged, right, slow, stage

EXERCISE = Exercise(
    name="make_batches",
    slow=slow.make_batches,
    cases=cases.dealing_cases,
    asked=Asked(ask=stage.ask_make_batches, see=judged.seen),
    right=Right(function=right.right_make_batches),
    checks=(Values(5),),
    teaching=Teaching(
        hints=(
            "Which rank sets the pace of a step, and what would the others have to be given so that none waits for another?",
            "Do not deal out batches: make *steps* first, of samples of like length for all ranks together, and share each "
            "of them out. How many steps are there at least, and how large is each when they are as alike as can be?",
            "`draw = random.Random(epoch)`; sort the places by `length * draw.uniform(0.9, 1.1)`; cut them into "
            "`ceil(n / (world * batch_size))` steps at `n * step // steps`; `draw.shuffle` the steps; rank r gets "
            "`step[r::world]` "
            "of each.",
        ),
        mistakes=MistakesFile(__package__, names),
        explain=cases.explain_dealing,
    ),
)
