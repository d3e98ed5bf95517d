"""Lesson 04: its exercises, points, hints and headline."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...course.exercise import Exercise, Lesson, Program
from . import bound, cases, functions, mistaken_bounds, mistakes, stage, workload
from .quick import QUICK

_COPY = ("a copy waits for all that was queued before it, and for itself, unless it is told not to (`non_blocking=True`) "
         "*and* the host's memory is pinned: from pageable memory the driver has to take the bytes while the host stands by")

EXERCISES = (
    Exercise(
        name="input_bound",
        slow=functions.input_bound,
        right=bound.right_input_bound,
        cases=cases.input_bound_cases,
        ask=stage.ask_input_bound,
        mistakes=mistaken_bounds.BOUNDS,
        points={"values": 4},
        hints=(
            "The host spends time in the loader. When does that cost the GPU anything, and what does the GPU do in the "
            "other moments?",
            "Two sets of moments: those inside a loader's block, on the steps' thread, and those in which a kernel, a copy "
            "or a memset runs. Wanted are those in the first and not in the second. The union of intervals is lesson 01's.",
            "Write `covered(spans)`: the time that at least one span covers, cut off at the steps' start and end. Then "
            "`covered(work + blocks) - covered(work)` is what the blocks cover beyond the work; divide by the steps' time.",
        ),
    ),
    Exercise(
        name="to_device",
        slow=functions.to_device,
        cases=cases.batch_cases,
        ask=stage.ask_to_device,
        on_device=True,
        mistakes=mistakes.BATCH_MISTAKES,
        full=cases.full_batches,
        trial=cases.BATCH_TRIAL,
        busy_ms=100.0,
        points={"values": 2, "syncs": 2, "host_time": 1},
        max_time_ratio={"host_time": 0.5},
        advice={"to": _COPY, "_to_copy": _COPY, "copy_": _COPY},
        step_is="a call for each of two batches",
        hints=(
            "Two things have to hold before a copy can go on by itself: one is asked of the copy, one of the memory. Which "
            "of them has the function as handed out?",
            "The memory has to be pinned (page-locked), or `non_blocking=True` changes nothing. A batch of a loader with "
            "`pin_memory=True` is pinned already; another can be pinned here. Let each batch have pinned memory of its own: "
            "when the function returns, the copy has not even begun.",
            "`batch.pin_memory().to(device, non_blocking=True)` for each tensor of the host's. `pin_memory()` returns a "
            "pinned tensor itself, and PyTorch keeps the memory of a new one until its copy is done. A tensor that is on "
            "the device already cannot be pinned.",
        ),
    ),
    Exercise(
        name="prepare",
        slow=functions.prepare,
        cases=cases.image_cases,
        mistakes=mistakes.IMAGE_MISTAKES,
        full=cases.full_images,
        trial=cases.IMAGE_TRIAL,
        points={"values": 2, "bus_bytes": 2, "syncs": 1, "host_time": 1},
        max_bytes_ratio=0.3,
        max_time_ratio={"host_time": 0.25},
        advice={"to": _COPY, "_to_copy": _COPY, "copy_": _COPY},
        step_is="a call",
        hints=(
            "How many bytes has an image as it is given, how many when it crosses the bus, and at which line do they become "
            "more?",
            "A float32 has four bytes and says no more than the byte that it was made of. The GPU makes floats of a million "
            "bytes in microseconds: change the order of the lines.",
            "`images.to(mean.device, non_blocking=True)` first, and only then `.float() / 255`. `images` lies in pinned "
            "memory; what you compute from it on the host does not.",
        ),
    ),
)



def programs(fixed: dict[str, Callable]) -> list[Program]:
    """The step as first written, then with one change after another."""

    def program(name: str, article: str = "–", **changes) -> Program:
        return Program(name, lambda device: workload.training_step(device, **changes), article)

    workers, own = {"workers": 4, "pinned": True}, {"to_device": fixed["to_device"]}
    as_bytes = {**workers, "as_bytes": True, "prepare": fixed["prepare"]}
    return [
        Program("as first written", workload.as_first_written, "–"),
        program("one worker", "6.7 s an epoch, pinned", workers=1, to_device=functions.to_device),
        program("four workers", "4.1 s an epoch, pinned (eight: 4.5 s)", workers=4, to_device=functions.to_device),
        program("pinned memory, copies that do not block", **workers, **own),
        program("bytes to the device", **as_bytes, **own),
        program("the next batch's copy on a stream of its own", **as_bytes, prefetch=fixed["prefetch"]),
    ] if "prefetch" in fixed else []


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
