"""Lesson 07: the exercise ``worth_compiling``."""

from __future__ import annotations

from ....course.checks import Values
from ....course.exercise import Asked, Exercise, Right, Teaching
from ....course.mistakes import MistakesFile
from .. import stage
from . import cases, explain, right, slow

EXERCISE = Exercise(
    name="worth_compiling",
    slow=slow.worth_compiling,
    cases=cases.worth_cases,
    asked=Asked(ask=stage.ask_reckoned),
    right=Right(function=right.right_worth_compiling),
    checks=(Values(4),),
    teaching=Teaching(
        hints=(
            "Which of the compiled times will a step take from now on, and which do you pay once? If it compiled again "
            "later on, will it do so in the coming steps?",
            "Gain of a step = median of `eager` − median of the steps that did not compile − average cost of later "
            "compilations in each of the later steps. Price = the time in `compiled[0]`, whether it compiled or not, − "
            "that median. If the gain is at most 5 % of the eager step, or every step compiled, it never pays.",
            "`usual = [ms for ms, compiles in compiled if not compiles]`, `steady = statistics.median(usual)`, `again = "
            "sum(ms - steady for ms, compiles in compiled[1:] if compiles) / max(1, len(compiled) - 1)`, `gain = "
            "statistics.median(eager) - steady - again`, `after = max(1, math.ceil((compiled[0][0] - steady) / gain))`. "
            "It pays if `after <= steps`.",
        ),
        mistakes=MistakesFile(__package__, stage.names),
        explain=explain.worth,
    ),
)
