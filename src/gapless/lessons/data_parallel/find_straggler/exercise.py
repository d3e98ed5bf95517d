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
            "shortest kernel: the one that waits, or the one that the others wait for?",
            "Measure three durations for each rank. First: a kernel other than NCCL's runs. Second: NCCL runs *and nothing "
            "computes*. Third: nothing runs at all while the host is inside the loader's block. The rank with the shortest "
            "second duration is late. The reason is what that rank has more of than the others.",
            "Let `covered(spans)` be the time that at least one span covers. Use `covered(nccl + computing) - "
            "covered(computing)`, and `covered(loading + work) - covered(work)`. A twentieth of the time is noise. If no "
            "rank is late and the ranks' median exposed time is a fifth or more, it is the network. Then compare the groups "
            "of `span.args[\"Process Group Ranks\"]`.",
        ),
        mistakes=mistakes.NAMINGS,
        explain=cases.explain_naming,
    ),
)
