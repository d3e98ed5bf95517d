"""Lesson 05: what a larger batch gives, from the card's memory to the learning rate, to be looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ...course.exercise import full_size
from ...evidence.pictures.figure import new_figure
from ...measure.device import origin_of
from ...measure.profile import time_step
from .workload import Fixes, training_step


@dataclass(frozen=True)
class Throughput:
    """Of a training with ``batch`` images a step: images a second, and the bytes that a step takes at most."""

    batch: int
    images_per_s: float
    peak_bytes: int


def step_of(device: torch.device, batch: int, fixes: Fixes) -> Callable[[], None]:
    """One step of the program with ``batch`` images, made and run at full size each time it is called."""
    changed = Fixes(fixes.tuned, fixes.without_bias, fixes.channels_last, fixes.mixed_precision, batch)

    def step():
        with full_size(device):
            training_step(device, changed)()

    return step


def throughputs(device: torch.device, batches: tuple[int, ...], fixes: Fixes) -> list[Throughput]:
    """Of those ``batches`` that fit into the card's memory."""
    found = []
    for batch in batches:
        try:
            with full_size(device):
                changed = Fixes(fixes.tuned, fixes.without_bias, fixes.channels_last, fixes.mixed_precision, batch)
                step = training_step(device, changed)
                step()
                _memory(device).reset_peak_memory_stats()
                ms = time_step(step, warmup=0, steps=2, blocks=1, device=device).true_ms
                peak = _memory(device).max_memory_allocated()
            found.append(Throughput(batch, 1e3 * batch / ms, peak))
        except torch.OutOfMemoryError:
            break
    return found


def _memory(device: torch.device):
    """``torch.cuda``, or what stands for it."""
    return getattr(torch, device.type)


def draw_throughput(device: torch.device, ways: dict[str, Fixes],
                    batches: tuple[int, ...] = (8, 32, 128, 512, 1024, 2048)):
    """Images a second by the batch, a line for each of the ``ways``, as far as the memory goes. Returns a figure. Raises
    ImportError without matplotlib."""
    found = {name: throughputs(device, batches, fixes) for name, fixes in ways.items()}
    place = origin_of(device)
    words = [f"{name}: " + ", ".join(f"{each.images_per_s:.0f} a second with {each.batch}" for each in row)
             for name, row in found.items() if row]
    figure = new_figure(8.0, 3.4, f"Line chart, images a second by batch, {place}. {'; '.join(words)}.")
    axes = figure.subplots()
    for (name, row), marker, color in zip(found.items(), "os^D", ("#7f8b97", "#3b7dc4", "#d9541e", "#16936c")):
        axes.plot([each.batch for each in row], [each.images_per_s for each in row], marker=marker, color=color, label=name)
        if row:
            last = row[-1]
            axes.annotate(f"{last.batch}: {last.peak_bytes / 2**30:.1f} GiB", (last.batch, last.images_per_s),
                          textcoords="offset points", xytext=(6, -3), fontsize=8.5)
    axes.set_xscale("log", base=2)
    axes.set_xticks(batches, [str(batch) for batch in batches])
    axes.set_ylim(0)
    axes.set_xlim(batches[0] / 1.2, batches[-1] * 2.2)
    axes.set_xlabel("images a step; at the end of each line, the memory of its last step")
    axes.set_title(f"images a second ({place})", loc="left", fontsize=10.5, fontweight="bold")
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
