"""Lesson 10: its exercises and headline, and the same about its other programs."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import torch

from ...course import exercise as framework
from .cause import without
from .findings.exercise import findings_exercise
from .program import ENTRY, Program
from .programs.letters.program import LETTERS
from .programs.nuclei.program import NUCLEI
from .programs.photos.program import PHOTOS
from .stage import names
from .train.cases import full_of
from .train.exercise import train_exercise

PROGRAMS = {program.name: program for program in (PHOTOS, LETTERS, NUCLEI)}
SHOWN = PHOTOS  # in the notebook as it is handed out


def choose(learner: str) -> Program:
    """The program for a learner of this name: the same each time, and another for about two of three other learners."""
    return list(PROGRAMS.values())[zlib.crc32(learner.encode()) % len(PROGRAMS)]


def headline_of(program: Program) -> Callable[[dict[str, Callable]], list[framework.Program]]:
    """``programs(fixed)``: the program with fewer and fewer of its causes, and last the learner's."""
    def programs(fixed: dict[str, Callable]) -> list[framework.Program]:
        stages = [(name, program.load(without(program.slow_files, program.causes[:count])))
                  for name, count in program.stages]
        if ENTRY in fixed:
            stages.append(("`train` as fixed", fixed[ENTRY]))

        def stage(name: str, train: Callable) -> framework.Program:
            def make_step(device: torch.device) -> Callable[[], None]:
                given = full_of(program)(device)()
                return lambda: train(*given.inputs.values(), device, **given.options["settings"])

            return framework.Program(name, make_step, "–", steps=1, whole_run=True)

        return [stage(name, train) for name, train in stages]

    return programs


def lesson_of(program: Program, variants: dict[str, framework.Lesson]) -> framework.Lesson:
    """The lesson about ``program``."""
    exercises = (findings_exercise(program), train_exercise(program))
    return framework.Lesson(
        id="10_capstone",
        title="The capstone",
        exercises={exercise.name: exercise for exercise in exercises},
        names=names,
        programs=headline_of(program),
        size=lambda device: f"a run (one step of the table): {program.size_in_words}",
        article="",
        program=program.name,
        variants=variants,
    )


LESSON = lesson_of(SHOWN, {name: lesson_of(program, {}) for name, program in PROGRAMS.items() if program is not SHOWN})
