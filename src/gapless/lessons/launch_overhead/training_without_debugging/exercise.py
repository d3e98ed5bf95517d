"""Lesson 06: the exercise ``training_without_debugging``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Teaching
from . import cases, explain, slow
from .right import right_training_without_debugging, wanted_training_without_debugging
from .stage import ask_training_without_debugging

EXERCISE = Exercise(
    name="training_without_debugging",
    slow=slow.training_without_debugging,
    cases=cases.debug_cases,
    asked=Asked(ask=ask_training_without_debugging),
    right=Right(function=right_training_without_debugging, wanted=wanted_training_without_debugging),
    checks=(Values(5),),
    teaching=Teaching(
        hints=(
            "What does the first step of a training run do that no other does? If two switches turn on the same thing, how "
            "much does one of them save? And how do you notice that an aid is needed?",
            "An aid's cost is the mean time of a step with it *alone*, compared with a training without any. Leave out "
            "the first step, and no other. An aid is needed if a run with all aids *except* it has a different log "
            "from a run with all aids.",
            "`bare = training.run([])`, `full = training.run(training.aids)`. For each aid `alone = training.run([aid])` "
            "and `without = training.run([other for other in training.aids if other != aid])`. Turn it off if the mean "
            "of `alone.step_ms[1:]` is above 1.1 times that of `bare.step_ms[1:]`, and `without.log == full.log`.",
        ),
        explain=explain.training_without_debugging,
    ),
)
