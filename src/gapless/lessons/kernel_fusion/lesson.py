"""Lesson 07: its exercises, points, hints and headline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from ...course.exercise import Lesson, Program
from .attention.exercise import EXERCISE as ATTENTION
from .forward.exercise import EXERCISE as FORWARD
from .gelu.exercise import EXERCISE as GELU
from .head_loss.exercise import EXERCISE as HEAD_LOSS
from .make_step.exercise import EXERCISE as MAKE_STEP
from .predicted_gain.exercise import EXERCISE as PREDICTED_GAIN
from .quick import QUICK
from .stage import names
from .swish.exercise import EXERCISE as SWISH
from .workload import BATCH, LAYERS, LENGTH, Fixes, training_step
from .worth_compiling.exercise import EXERCISE as WORTH_COMPILING

EXERCISES = (PREDICTED_GAIN, GELU, FORWARD, MAKE_STEP, ATTENTION, HEAD_LOSS, SWISH, WORTH_COMPILING)


def programs(fixed: dict[str, Callable]) -> list[Program]:
    """The unoptimised training step, then with one fix after another; and the unoptimised one, compiled."""
    attended = Fixes(attention=fixed["attention"])
    headed = replace(attended, head_loss=fixed["head_loss"])
    smooth = replace(headed, swish=fixed["swish"], gelu=fixed["gelu"])

    def program(name: str, fixes: Fixes, talk: str = "–") -> Program:
        return Program(name, lambda device: training_step(device, fixes), talk, steps=6)

    return [
        program("unoptimised", Fixes(), "GELU of 1 M elements: 5 kernels"),
        program("attention in one operator", attended),
        program("and the head's three operators", headed),
        program("and your swish, and GELU compiled", smooth, "that GELU: 1 kernel, close to 4×"),
        program("unoptimised, all of it compiled", Fixes(compiled=True)),
        program("all fixes, all of it compiled", replace(smooth, gelu=Fixes.gelu, compiled=True)),
    ]


def size_in_words(device: torch.device) -> str:
    """Such as "batch 8 of 512 words, 4 layers"."""
    return f"batch {BATCH} of {LENGTH} words, {LAYERS} layers"


LESSON = Lesson(
    id="07_kernel_fusion",
    title="Kernel fusion",
    exercises={exercise.name: exercise for exercise in EXERCISES},
    names=names,
    programs=programs,
    size=size_in_words,
    article="NVIDIA's talk",
    quick=QUICK,
    card="a100",
)
