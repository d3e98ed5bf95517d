"""Lesson 08: its exercises and headline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from ...course.exercise import Lesson, Program
from .accumulate.exercise import EXERCISE as ACCUMULATE
from .budget.exercise import EXERCISE as BUDGET
from .checkpointed.exercise import EXERCISE as CHECKPOINTED
from .largest_batch_that_fits.exercise import EXERCISE as LARGEST_BATCH_THAT_FITS
from .optimizer_in_backward.exercise import EXERCISE as OPTIMIZER_IN_BACKWARD
from .quick import QUICK
from .stage import names
from .tied_to_the_batch.exercise import EXERCISE as TIED_TO_THE_BATCH
from .train_epoch.exercise import EXERCISE as TRAIN_EPOCH
from .workload import BATCH, MOST, PARTS, WANTED, Fixes, size_in_words, training

EXERCISES = (BUDGET, TRAIN_EPOCH, CHECKPOINTED, ACCUMULATE, TIED_TO_THE_BATCH, OPTIMIZER_IN_BACKWARD,
             LARGEST_BATCH_THAT_FITS)


def programs(fixed: dict[str, Callable]) -> list[Program]:
    """The unoptimised training, and with each means by itself and together."""
    search = fixed["largest_batch_that_fits"]
    again = Fixes(checkpointed=fixed["checkpointed"])

    def program(name: str, fixes: Fixes, batch: int = BATCH, talk: str = "–") -> Program:
        def make_step(device: torch.device) -> Callable[[], None]:
            step = training(device, fixes)
            return lambda: step(batch)

        def largest_batch(device: torch.device) -> int:
            return search(training(device, fixes), MOST)

        return Program(name, make_step, talk, samples=batch, largest_batch=largest_batch)

    return [
        program("unoptimised", Fixes()),
        program("gradients freed as they are used", Fixes(optimizer_in_backward=fixed["optimizer_in_backward"])),
        program("checkpointed", again, talk="cheap, large layers: no figure"),
        program("mixed precision", Fixes(mixed_precision=True), talk="frees memory: no figure"),
        program("both of these", replace(again, mixed_precision=True), talk="–"),
        program(f"unoptimised, batch {WANTED} in {PARTS} parts",
                Fixes(accumulate=fixed["accumulate"], parts=PARTS), WANTED),
        program(f"both, batch {WANTED} at once", replace(again, mixed_precision=True), WANTED),
    ]


LESSON = Lesson(
    id="08_memory",
    title="Memory",
    exercises={exercise.name: exercise for exercise in EXERCISES},
    names=names,
    programs=programs,
    size=size_in_words,
    article="NVIDIA's talk",
    quick=QUICK,
    card="t4",
)
