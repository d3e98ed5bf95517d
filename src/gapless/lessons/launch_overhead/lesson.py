"""Lesson 06: its exercises, points, hints and headline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from ...course.exercise import Lesson, Program
from . import workload
from .all_heads.exercise import EXERCISE as ALL_HEADS
from .capture_step.exercise import EXERCISE as CAPTURE_STEP
from .clear_grads.exercise import EXERCISE as CLEAR_GRADS
from .clip.exercise import EXERCISE as CLIP
from .make_optimizer.exercise import EXERCISE as MAKE_OPTIMIZER
from .quick import QUICK
from .stage import names
from .training_without_debugging.exercise import EXERCISE as TRAINING_WITHOUT_DEBUGGING
from .update_average.exercise import EXERCISE as UPDATE_AVERAGE
from .workload import Fixes, training_step

EXERCISES = (UPDATE_AVERAGE, CLIP, MAKE_OPTIMIZER, CAPTURE_STEP, CLEAR_GRADS, TRAINING_WITHOUT_DEBUGGING, ALL_HEADS)


FEW = 6  # steps of a timed run: of a program that waits all the time they tell what 20 do, and take a third of the real time


def programs(fixed: dict[str, Callable]) -> list[Program]:
    """The unoptimised training step, then with one fix after another."""
    found, fixes = [], Fixes()

    def program(name: str, talk: str, steps: int = 20, **fixed_now) -> None:
        nonlocal fixes
        fixes = own = replace(fixes, **fixed_now)
        found.append(Program(name, lambda device: training_step(device, own), talk, steps=steps))

    def taken(*names: str) -> dict[str, Callable]:
        return {name: fixed[name] for name in names}

    program("unoptimised", "–", FEW)
    program("anomaly mode off", "debug APIs off: no figure", FEW, anomaly_mode=False)
    program("gradients None", "no memset a parameter, `=` in place of `+=`: no figure", FEW, **taken("clear_grads"))
    program("averages by lists", "–", **taken("update_average"))
    program("clipping by lists, no wait", "–", **taken("clip"))
    program("a fused optimizer, two groups", "one kernel a step: no figure", **taken("make_optimizer"))
    program("all heads at once", "–", **taken("all_heads"))
    program("the step as one launch", "–", **taken("capture_step"))
    return found


def size_in_words(device: torch.device) -> str:
    """Such as "218 parameters, batch 16 of 64 tokens × 256"."""
    return (f"a network of {workload.parameter_count()} parameters, batch {workload.BATCH} of {workload.TOKENS} tokens × "
            f"{workload.WIDTH}")


LESSON = Lesson(
    id="06_launch_overhead",
    title="Launch overhead",
    exercises={exercise.name: exercise for exercise in EXERCISES},
    names=names,
    programs=programs,
    size=size_in_words,
    article="NVIDIA's talk",
    quick=QUICK,
    card="a100",
)
