"""Lesson 07: the exercises in which fusing is reckoned: what it gains, and whether it pays."""

from __future__ import annotations

from ...course.exercise import Exercise
from . import explain, functions, reckoning_cases, reckoning_mistakes, right, stage

GAIN = Exercise(
    name="predicted_gain",
    slow=functions.predicted_gain,
    right=right.right_predicted_gain,
    cases=reckoning_cases.gain_cases,
    ask=stage.ask_reckoned,
    mistakes=reckoning_mistakes.GAIN,
    explain=explain.gain,
    points={"values": 4},
    hints=(
        "What takes such a kernel its time: the arithmetic, or the bytes? Which of these bytes would nobody move if all was "
        "one kernel?",
        "Before: all that all kernels read and write. After: what comes from outside, read once; what is needed afterwards, "
        "written once. What one kernel writes and a later one reads stays in a register.",
        "Keep a set of what was made so far. A read of a name that is in it costs nothing; of one that is not, its bytes, "
        "once. A write costs its bytes where its name is in `outputs`. Then add the kernel's writes to the set. Nothing to "
        "move at all: 1.0.",
    ),
)

WORTH = Exercise(
    name="worth_compiling",
    slow=functions.worth_compiling,
    right=right.right_worth_compiling,
    cases=reckoning_cases.worth_cases,
    ask=stage.ask_reckoned,
    mistakes=reckoning_mistakes.WORTH,
    explain=explain.worth,
    points={"values": 4},
    hints=(
        "Which of the compiled times is what a step will cost from now on, and which is paid once? And if it compiled again "
        "later on: will it do so in the steps to come?",
        "Gain of a step = median of `eager` − median of the steps that did not compile − what later compilations cost on "
        "average in each of the later steps. Price = the first step − that median. At a gain of up to 5 % of the eager "
        "step, "
        "or without a step that did not compile, it never pays.",
        "`usual = [ms for ms, compiles in compiled if not compiles]`, `steady = statistics.median(usual)`, `again = sum(ms "
        "- "
        "steady for ms, compiles in compiled[1:] if compiles) / len(compiled[1:])`, `gain = statistics.median(eager) - "
        "steady "
        "- again`, `after = max(1, math.ceil((compiled[0][0] - steady) / gain))`; it pays if `after <= steps`.",
    ),
)
