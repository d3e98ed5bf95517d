"""Lesson 04: its exercises, points, hints and headline."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ...course.exercise import Exercise, Lesson, Program
from . import (
    bound,
    cases,
    cases_augmenting,
    cases_prefetch,
    cases_workers,
    functions,
    mistaken_bounds,
    mistakes,
    mistakes_workers,
    right,
    stage,
    workload,
)
from .augmenting import ask_make_loader
from .explain_augmenting import explain_loader
from .explain_prefetch import explain_prefetch
from .measuring_workers import ask_best_workers
from .prefetching import BATCHES, ask_prefetch
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
        explain=bound.explain_bound,
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
        name="best_workers",
        slow=functions.best_workers,
        right=right.right_best_workers,
        truth_on_device=True,
        cases=cases_workers.workers_cases,
        ask=ask_best_workers,
        mistakes=mistakes_workers.WORKERS_MISTAKES,
        explain=mistakes_workers.explain_workers,
        points={"values": 5},
        hints=(
            "What is in the first epoch's time that no later epoch has? And if you measured the same loader twice, how far "
            "apart might the two figures be?",
            "For each candidate make the loader, let one epoch pass, then time several whole epochs and take their median. "
            "Of the candidates whose median is within 5 % of the smallest, return the smallest number.",
            "`statistics.median` of five times, each `clock_ms(device)` after a `for _ in loader: pass` less the one "
            "before it; then `min(n for n, ms in times.items() if ms <= 1.05 * min(times.values()))`.",
        ),
    ),
    Exercise(
        name="make_loader",
        slow=functions.make_loader,
        right=right.right_make_loader,
        truth_on_device=True,
        cases=cases_augmenting.loader_cases,
        ask=ask_make_loader,
        see=cases_augmenting.see_loader,
        explain=explain_loader,
        points={"values": 5},
        hints=(
            "Three things are wrong with the loader's settings, and one with what comes out of it. Print the noise of the "
            "first pixel of all images of an epoch, sorted: what do you see with two workers, and what with none?",
            "`pin_memory`, `persistent_workers` (not without workers). And each worker has a copy of `dataset.rng` in the "
            "same state: `worker_init_fn` is called in each worker when it starts, and there `get_worker_info()` knows the "
            "worker's `dataset` and a `seed` of its own.",
            "In `worker_init_fn`: `info = get_worker_info()`, then `info.dataset.rng = np.random.default_rng(info.seed)`. "
            "The rest: `pin_memory=True, persistent_workers=workers > 0`.",
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
        least_bytes_ratio=1.0,
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
        least_bytes_ratio=0.25,  # a byte for each four
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
    Exercise(
        name="prefetch",
        slow=functions.prefetch,
        cases=cases_prefetch.prefetch_cases,
        ask=ask_prefetch,
        explain=explain_prefetch,
        full=cases_prefetch.full_prefetch,
        trial=cases_prefetch.PREFETCH_TRIAL,
        points={"values": 2, "syncs": 2, "step_time": 2},
        step_is=f"an epoch of {BATCHES} batches with one read of the loss in each step",
        max_syncs=BATCHES,
        least_syncs=BATCHES,
        least_bytes_ratio=1.0,
        # On the simulated cards it is 0.6 to 0.75; with the copies on the loop's own stream, 1.
        max_time_ratio={"step_time": 0.83},
        advice={"to": "a copy to the device waits unless its memory is pinned *and* it is told `non_blocking=True`; a "
                      "loader pins only what it knows, so look (`is_pinned`)",
                "item": f"the loop reads its loss in every step, and these {BATCHES} waits may stay; any other read is "
                        "yours",
                "step_time": "The copies do not run beside the loop's kernels. They have to be on a stream of their own; "
                             "the next batch's has to be queued before this batch is yielded; and what the loop's stream "
                             "waits for is this batch's copy alone, not all that is queued on the other stream"},
        hints=(
            "While the device computes with a batch, its copy engine has nothing to do. Which copy could it make "
            "meanwhile, and when would that have to be queued: before this batch is yielded, or after?",
            "Queue the copy of batch i + 1 on a stream of your own (`with side:`), from pinned memory and with "
            "`non_blocking=True`, and only then yield batch i. Before it is yielded the loop's stream has to wait for "
            "*its* copy: an event recorded behind the copy. After the loop one batch is still in your hands.",
            "Keep `held = (batch, side.record_event())`. For each batch of the loader: copy it inside `with side:`; then, "
            "outside, if something is held, `torch.accelerator.current_stream().wait_event(event)`, "
            "`tensor.record_stream(…)` for each of its tensors, `yield`; then hold the new one. An error of the loader is "
            "kept until what is held has been yielded.",
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
