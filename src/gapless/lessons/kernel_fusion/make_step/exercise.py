"""Lesson 07: the exercise ``make_step``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Teaching
from . import cases, explain, mistakes, right, slow, stage
from .judged import seen_compilations

EXERCISE = Exercise(
    name="make_step",
    slow=slow.make_step,
    cases=cases.length_cases,
    asked=Asked(ask=stage.ask_lengths, see=seen_compilations),
    right=Right(function=right.right_make_step, relative_tolerance=1e-3),
    checks=(Values(5),),
    teaching=Teaching(
        hints=(
            "`torch._logging.set_logs(recompiles=True)` prints for each compilation which *guard* failed. What did the "
            "compiled code assume? Two things change from call to call here.",
            "Lengths: `dynamic=False` asks for a separate graph for each. The list: a graph that looks at it is right "
            "for only one length of the *list*. Does the compiled function have to see it?",
            "Use `compiled = torch.compile(loss)` on a function that only computes. `step` records the length, then "
            "returns `compiled(batch)`. By default the first length is compiled as it is, and the second one makes it a "
            "symbol. `dynamic=True`, or `torch._dynamo.mark_dynamic(batch, 1)`, does so at once.",
        ),
        mistakes=mistakes.MAKE_STEP,
        explain=explain.lengths,
    ),
)
