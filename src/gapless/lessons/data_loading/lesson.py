"""Lesson 04: its exercises, points, hints and headline."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...course.exercise import Lesson, Program
from . import stage, workload
from .best_workers.exercise import EXERCISE as BEST_WORKERS
from .input_bound.exercise import EXERCISE as INPUT_BOUND
from .make_loader.exercise import EXERCISE as MAKE_LOADER
from .prefetch.exercise import EXERCISE as PREFETCH
from .prepare.exercise import EXERCISE as PREPARE
from .quick import QUICK
from .to_device import slow
from .to_device.exercise import EXERCISE as TO_DEVICE

EXERCISES = (INPUT_BOUND, BEST_WORKERS, MAKE_LOADER, TO_DEVICE, PREPARE, PREFETCH)


def programs(fixed: dict[str, Callable]) -> list[Program]:
    """The unoptimised step, then with one change after another."""

    def program(name: str, article: str = "–", **changes) -> Program:
        return Program(name, lambda device: workload.training_step(device, **changes), article)

    workers, own = {"workers": 4, "pinned": True}, {"to_device": fixed["to_device"]}
    as_bytes = {**workers, "as_bytes": True, "prepare": fixed["prepare"]}
    return [
        Program("unoptimised", workload.unoptimised, "–"),
        program("one worker", "6.7 s an epoch, pinned", workers=1, to_device=slow.to_device),
        program("four workers", "4.1 s an epoch, pinned (eight: 4.5 s)", workers=4, to_device=slow.to_device),
        program("pinned memory, copies that do not block", **workers, **own),
        program("bytes to the device", **as_bytes, **own),
        program("the next batch's copy on a stream of its own", **as_bytes, prefetch=fixed["prefetch"]),
    ]


def size_in_words(device: torch.device) -> str:
    """Such as "batch 256 of 3×64×64, 0.1 ms to decode an image"."""
    return (f"batch {workload.BATCH} of {workload.CHANNELS}×{workload.SIDE}×{workload.SIDE} (our choice), "
            f"{workload.DECODE_MS} ms of the host to decode an image")


LESSON = Lesson(
    id="04_data_loading",
    title="Data loading",
    exercises={exercise.name: exercise for exercise in EXERCISES},
    names=stage.names,
    programs=programs,
    size=size_in_words,
    article="the talk's MNIST example, in epochs",
    quick=QUICK,
)
