"""Lesson 09: the exercise ``find_straggler``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Teaching
from . import cases, mistakes, right, slow, stage

EXERCISE = Exercise(
    name="find_straggler",
    slow=slow.find_straggler,
    cases=cases.naming_cases,
    asked=Asked(ask=stage.ask_find_straggler),
    right=Right(function=right.right_find_straggler),
    checks=(Values(6),),
    teaching=Teaching(
        hints=(
            "NCCL's kernel starts on each rank when that rank is ready, and ends on all at once. Which rank has the "
            "shortest: the one that waits, or the one that is waited for?",
            "For each rank measure three things: the time in which anything computes, the time in which NCCL runs *and "
            "nothing computes*, and the time in which nothing runs at all while the host is inside the loader's block. The "
            "rank with least of the second is late; what it has more of than the others is why.",
            "With `covered(spans)`, the time that at least one span covers: `covered(nccl + computing) - "
            "covered(computing)`, and `covered(loading + work) - covered(work)`. A twentieth of the time is noise. If "
            "nobody is late and the second is a fifth of the time or more, it is the network; then compare the groups of "
            "`span.args[\"Process Group Ranks\"]`.",
        ),
        mistakes=mistakes.NAMINGS,
        explain=cases.explain_naming,
    ),
)
