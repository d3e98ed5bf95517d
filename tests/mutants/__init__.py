"""Every solution with one thing changed, through the checks. ``survivors/LESSON.toml`` lists the changes that rightly pass."""

from __future__ import annotations

import dataclasses
import functools
import re
import tomllib
from pathlib import Path

from gapless.course.evidence import Plan
from gapless.course.gather import gather
from gapless.course.judge import judge
from gapless.course.notebooks.cells import CellError, load_function
from gapless.course.stage import LocalStage
from gapless.course.verdicts import FAIL
from gapless.lessons import LESSONS
from gapless.measure.device import device as choose_device

from ..grading.lessoncells import cells
from ..lessons.reference import inputs, runs
from .changes import Mutant, mutants

_FEW = 6  # inputs
UNCHANGED = "nothing"

EXERCISES = [(lesson.id, name) for lesson in LESSONS.values() for name in lesson.exercises]


@functools.cache
def mutants_of(lesson_id: str, name: str) -> list[Mutant]:
    """Of the exercise's solution."""
    exercise = LESSONS[lesson_id].exercises[name]
    measured = exercise.measurement is not None and not exercise.is_whole_run  # of a whole run nobody counts the waits
    return mutants(cells("solutions", lesson_id)[name], "vgpu" if measured else None)


def unchanged(lesson_id: str, name: str) -> Mutant:
    """The solution itself."""
    return Mutant(0, UNCHANGED, cells("solutions", lesson_id)[name])


def judged(task: tuple[str, str, Mutant], seed: int, card: str) -> dict[str, tuple[str, str]]:
    """Check → its outcome and message; only of the values where these are wrong, which a few of the inputs tell of most."""
    lesson_id, name, mutant = task
    exercise, device = LESSONS[lesson_id].exercises[name], f"vgpu:{card}"
    try:
        function = load_function(mutant.source, name, LESSONS[lesson_id].names())
    except CellError as error:
        return {"values": (FAIL, str(error))}
    plan, truth = inputs(lesson_id, name, seed, device)
    values = dataclasses.replace(exercise, measurement=None, checks=exercise.checks[:1])
    for kind, some in ((values, Plan(plan.cases[:_FEW])), (values, Plan(plan.cases)), (exercise, plan)):
        where = choose_device(device)
        seen = gather(kind, LocalStage(function, where, kind.asked.ask), some, where, name=device, runs=runs(lesson_id, name, seed))
        verdicts = judge(kind, some, seen, truth, mutant.source)
        if verdicts[0].outcome == FAIL:
            break
    return {verdict.id.partition(".")[2]: (verdict.outcome, verdict.message) for verdict in verdicts}


def listed(lesson_id: str, name: str, change: str) -> tuple[str, str] | None:
    """The entry of a change that is right, or that no check need notice, and why; None where it is not listed."""
    return next(((pattern, why) for pattern, why in _listed(lesson_id).get(name, {}).items()
                 if re.fullmatch(".*".join(map(re.escape, pattern.split("…"))), change)), None)


@functools.cache
def _listed(lesson_id: str) -> dict[str, dict[str, str]]:
    """Exercise → change → why."""
    path = Path(__file__).parent / "survivors" / f"{lesson_id}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
