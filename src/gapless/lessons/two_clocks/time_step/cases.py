"""Lesson 00: the inputs of ``time_step``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ....course.exercise import Note


def stopwatch_cases(seed: int) -> list[Case]:
    """Programs of all kinds; ``busy`` of them begin while the device still works on something else."""
    rng = np.random.default_rng(seed)

    def case(name: str, program: str, size: int, warmup: int, steps: int, busy: bool = False) -> Case:
        return Case(name, {}, {"program": program, "size": size, "warmup": warmup, "steps": steps, "busy": busy})

    def between(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    few = between(10, 20)  # twice, so that who remembers a time by `warmup` and `steps` is found out
    return [
        case("many short kernels", "small", between(30, 90), 3, between(15, 30)),
        case("a few long kernels", "long", between(2500, 4000), 2, few),
        case("long kernels, so many steps that the queue is full", "long", between(2000, 3000), 2, between(700, 800)),
        # So many steps that it does not matter whether the first launch counts: two events leave it out.
        case("short kernels, then a long one", "both", between(1800, 2200), 3, between(120, 160)),
        case("every step reads a number back", "reads back", between(20, 60), 2, few),
        case("the first steps are slow, and so is the last", "uneven", between(1500, 2500), between(3, 6), between(10, 20)),
        case("no warm-up, and the device still busy with earlier work", "long", between(2000, 3000), 0, between(5, 10),
             busy=True),
        case("a single step", "long", between(2500, 4000), 1, 1),
    ]


CALLS, AS_ASKED, TOO_FEW = "calls of step", "as asked", "too few"


def see_stopwatch(case: Case, answer: dict, notes: list[Note]) -> dict:
    """The answer, with how often the step was called, unless that is the warm-up and then one or more whole runs."""
    warmup, steps, calls = case.options["warmup"], case.options["steps"], answer[CALLS]
    runs = calls - warmup
    if runs > 0 and runs % steps == 0:
        return {**answer, CALLS: AS_ASKED}
    return {**answer, CALLS: f"{TOO_FEW if runs < steps else 'too many'}, {calls} in place of {warmup} + {steps}"}
