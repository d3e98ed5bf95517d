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
            "Which rank sets the pace of a step? What would the others have to get so that none waits for another?",
            "Do not assign whole batches. Make *steps* first, of samples of similar length for all ranks together, and "
            "divide each of them. What is the least number of steps, and how large is each if they are as equal as "
            "possible?",
            "`draw = random.Random(epoch)`. Sort the indices by `length * draw.uniform(0.9, 1.1)`. Cut them into `ceil(n "
            "/ (world * batch_size))` steps at `n * step // steps`. `draw.shuffle` the steps. Rank r gets "
            "`step[r::world]` of each.",
        ),
        mistakes=MistakesFile(__package__, names),
        explain=cases.explain_dealing,
    ),
)
