"""Lesson 05: its exercises, points, hints and headline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from ...course.exercise import Lesson, Program
from . import stage
from .batches_of_few_shapes.exercise import EXERCISE as BATCHES_OF_FEW_SHAPES
from .largest_batch.exercise import EXERCISE as LARGEST_BATCH
from .lars_step.exercise import EXERCISE as LARS_STEP
from .quick import QUICK
from .tensor_core_sizes.exercise import EXERCISE as TENSOR_CORE_SIZES
from .to_channels_last.exercise import EXERCISE as TO_CHANNELS_LAST
from .train_step.exercise import EXERCISE as TRAIN_STEP
from .warmup_schedule.exercise import EXERCISE as WARMUP_SCHEDULE
from .without_bias.exercise import EXERCISE as WITHOUT_BIAS
from .workload import BATCH, LARGE_BATCH, SIDE, Fixes, training_step

EXERCISES = (BATCHES_OF_FEW_SHAPES, WITHOUT_BIAS, TO_CHANNELS_LAST, TRAIN_STEP, TENSOR_CORE_SIZES, LARGEST_BATCH,
             WARMUP_SCHEDULE, LARS_STEP)


def programs(fixed: dict[str, Callable]) -> list[Program]:
    """The unoptimised training step, then with one fix after another, and one that fixes nothing."""
    tuned = Fixes(tuned=True)
    unbiased = replace(tuned, without_bias=fixed["without_bias"])

    def program(name: str, fixes: Fixes, talk: str) -> Program:
        return Program(name, lambda device: training_step(device, fixes), talk, samples=fixes.batch)

    return [
        program("unoptimised", Fixes(), "one layer forward: 1430 µs"),
        program("autotuner on", tuned, "that layer: 840 µs, 1.7×"),
        program("no bias before a norm", unbiased, "one kernel less forward and backward"),
        program("channels-last, still float32", replace(unbiased, channels_last=True), "–"),
        program("mixed precision, contiguous", replace(unbiased, mixed_precision=True), "–"),
        program("mixed precision, channels-last", replace(unbiased, mixed_precision=True, channels_last=True), "–"),
        program(f"and batch {LARGE_BATCH}", replace(unbiased, mixed_precision=True, channels_last=True, batch=LARGE_BATCH),
                "larger batches: no figure"),
    ]


def size_in_words(device: torch.device) -> str:
    """Such as "batch 32 of 3×64×64, a ResNet of eighteen layers"."""
    return f"batch {BATCH} of 3×{SIDE}×{SIDE} unless stated otherwise, a ResNet of eighteen layers"


LESSON = Lesson(
    id="05_convolutions",
    title="Convolutions and precision",
    exercises={exercise.name: exercise for exercise in EXERCISES},
    names=stage.names,
    programs=programs,
    size=size_in_words,
    article="NVIDIA's talk, cuDNN 7",
    quick=QUICK,
    card="v100",
)
