"""Lesson 10: its exercises and headline."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...course import exercise as framework
from .cases import full_of
from .cause import without
from .findings_exercise import findings_exercise
from .program import ENTRY, Program
from .programs.photos.program import PHOTOS
from .stage import names
from .train_exercise import train_exercise

STAGES = (  # of the headline: name, and how many causes of the table are gone by then
    ("as first written", 0), ("without anomaly mode", 1), ("batches in time", 5), ("fewer kernels in the network", 8),
    ("a loss that waits for nothing", 13), ("scores on the device", 15), ("updates by lists", 19), ("no read in a step", 21),
)


def headline_of(program: Program) -> Callable[[dict[str, Callable]], list[framework.Program]]:
    """``programs(fixed)``: the program with fewer and fewer of its causes, and last the learner's."""
    def programs(fixed: dict[str, Callable]) -> list[framework.Program]:
        stages = [(name, program.load(without(program.slow_files, program.causes[:count]))) for name, count in STAGES]
        if ENTRY in fixed:
            stages.append(("`train` as mended", fixed[ENTRY]))

        def stage(name: str, train: Callable) -> framework.Program:
            def make_step(device: torch.device) -> Callable[[], None]:
                given = full_of(program)(device)()
                return lambda: train(*given.inputs.values(), device, **given.options["settings"])

            return framework.Program(name, make_step, "–", steps=1, whole_run=True)

        return [stage(name, train) for name, train in stages]

    return programs


SHOWN = PHOTOS
EXERCISES = (findings_exercise(SHOWN), train_exercise(SHOWN))

LESSON = framework.Lesson(
    id="10_capstone",
    title="The capstone",
    exercises={exercise.name: exercise for exercise in EXERCISES},
    names=names,
    programs=headline_of(SHOWN),
    size=lambda device: f"a run (one step of the table): {SHOWN.size_in_words}",
    article="",
)
