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
        right=Right(
            function=lambda: judged.all_findings(program),
            facts=lambda case, device: judged.traced(program, device, **case.options),
        ),
        checks=(
            InItsOwnWay(2, "values", judged.judged_of(program)),
            InItsOwnWay(3, "findings_10", judged.judged_of(program)),
            InItsOwnWay(3, "findings_15", judged.judged_of(program)),
        ),
        teaching=Teaching(
            hints=(
                "Profile the program as you got it. At which lines does the host wait, and how often in a step? Which "
                "lines launch the most kernels?",
                "Each line that the profile names is a candidate. What is it there for? If lines wait in the backward "
                "pass, the cause is elsewhere. A line can also cost time without a wait: look at the bytes on the bus, "
                "at gaps in the device's row, at the memory's peak.",
                "For instance `(\"losses.append(loss.item())\", \"wait\")`. Reading a number is a \"wait\", and so is a "
                "copy that blocks, or an operator whose result's size depends on values. A loop that launches for each "
                "parameter, class, head or picture is \"kernels\". Work of `DataLoader` in the main process is "
                "\"input\". A type larger than its content is \"bus\". Tensors that an evaluation keeps are \"memory\".",
            ),
            solution=lambda: judged.annotated_findings(program),
        ),
    )
