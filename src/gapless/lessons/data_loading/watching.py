"""Lesson 04: the start of an epoch, watched: what the workers, the main process and the GPU do, and when."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import torch

from ...measure.device import clock_ms, synchronize
from ...vgpu.host.data_loader import recording
from .workload import BATCH, at_full_size, make_train, one_by_one, pinned_loader

Interval = tuple[float, float]  # begin and end in ms, from when the loader's iterator is made


@dataclass(frozen=True)
class Watched:
    """``starting``: of each worker, from when its process is there until it can begin; ``making``: its batches. Both are
    empty on a real GPU, where nobody watches the workers. ``waits``: the main process for a batch, at first also making the
    workers; ``steps``: it copies a batch and launches the step; ``gpu``: the copy and the kernels of each step."""

    starting: list[Interval]
    making: list[list[Interval]]
    waits: list[Interval]
    steps: list[Interval]
    gpu: list[Interval]


def watched(device: torch.device, workers: int, batches: int) -> Watched:
    """One epoch of so many batches of the program with so many workers (at least 1), pinned memory and copies that do not
    block. Raises what the loader raises, as LoadingFailed."""
    with at_full_size(device), recording() if device.type == "vgpu" else nullcontext([]) as tasks:
        train, loader = make_train(device), pinned_loader(device, workers, batches * BATCH)
        synchronize(device)
        begun, started_ms = torch.Event(device, enable_timing=True), clock_ms(device)
        begun.record()
        waits, steps, marks, free_ms = [], [], [], 0.0
        for batch in one_by_one(loader):
            come_ms = clock_ms(device) - started_ms
            marks.append([torch.Event(device, enable_timing=True) for _ in range(2)])
            marks[-1][0].record()
            train(*(tensor.to(device, non_blocking=True) for tensor in batch))
            marks[-1][1].record()
            waits.append((free_ms, come_ms))
            free_ms = clock_ms(device) - started_ms
            steps.append((come_ms, free_ms))
        synchronize(device)
        gpu = [tuple(begun.elapsed_time(mark) for mark in pair) for pair in marks]
    spans = {is_start: [[] for _ in range(workers)] for is_start in (True, False)}
    for task in tasks:
        spans[task.is_start][task.worker].append((task.begun_ns / 1e6 - started_ms, task.ended_ns / 1e6 - started_ms))
    return Watched([span for each in spans[True] for span in each], spans[False] if tasks else [], waits, steps, gpu)
