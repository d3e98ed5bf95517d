"""Lesson 10: the exercise ``findings``, made of a program."""

from __future__ import annotations

from ....course.checks import InItsOwnWay
from ....course.exercise import Asked, Exercise, Right, Teaching
from ..program import Program
from ..stage import ask_findings
from . import judged, slow


def findings_exercise(program: Program) -> Exercise:
    """Say which lines of ``program`` cost what."""
    return Exercise(
        name="findings",
        slow=slow.findings,
        cases=judged.findings_cases,
        asked=Asked(ask=ask_findings),
        right=Right(function=lambda: judged.all_findings(program)),
        checks=(
            InItsOwnWay(2, "values", judged.judged_of(program)),
            InItsOwnWay(3, "findings_10", judged.judged_of(program)),
            InItsOwnWay(3, "findings_15", judged.judged_of(program)),
        ),
        teaching=Teaching(
            hints=(
                "Profile the program as it was handed out: at which lines does the host wait, and how often in a step? At "
                "which are the most kernels launched?",
                "Each line that the profile names is a candidate; what is it there for? Lines that wait in the backward "
                "pass have their cause elsewhere. What does not wait may cost all the same: look at the bytes on the bus, "
                "at gaps in the device's row, at the memory's peak.",
                "For instance `(\"losses.append(loss.item())\", \"wait\")`. Every number that is read, every copy that "
                "blocks, every operator whose result's size depends on values is a \"wait\"; a loop that launches for each "
                "parameter, class, head or picture is \"kernels\"; what `DataLoader` does in the main process is "
                "\"input\"; a type that is larger than what it holds is \"bus\"; what an evaluation keeps is \"memory\".",
            ),
            solution=lambda: judged.annotated_findings(program),
        ),
    )
