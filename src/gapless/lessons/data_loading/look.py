"""Lesson 04: what the notebook shows."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import torch

from ...evidence.pictures.figure import new_figure
from ...measure.device import clock_ms, synchronize
from ...vgpu.host.data_loader import recording
from ...words import counted
from .workload import BATCH, Epoch, at_full_size, make_train, one_by_one, pinned_loader

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


# Seconds an epoch of the talk's MNIST example, with pinned memory: "PyTorch Performance Tuning Guide" (ECCV 2020).
TALK_S = {1: 6.7, 4: 4.1, 8: 4.5}
# Nothing depends on colour alone.
_LOOKS = {
    "a worker starts": {"facecolor": "none", "edgecolor": "#7f8b97", "linewidth": 0.8, "hatch": "....."},
    "a worker makes a batch": {"facecolor": "#16936c55", "edgecolor": "#16936c", "linewidth": 0.8, "hatch": "\\\\\\\\"},
    "the main process makes workers": {"facecolor": "#7f8b9755", "edgecolor": "#7f8b97", "linewidth": 0.8, "hatch": "---"},
    "the main process waits for a batch": {"facecolor": "none", "edgecolor": "#d9541e", "linewidth": 0.8, "hatch": "////"},
    "the main process launches a step": {"facecolor": "#3c4650", "edgecolor": "#3c4650", "linewidth": 0.8},
    "the GPU works": {"facecolor": "#3b7dc4", "edgecolor": "white", "linewidth": 0.6},
}


def draw_epochs(epochs: Mapping[int, Epoch], title: str):
    """A bar for each number of workers, the part before the first batch hatched. A diamond marks each figure of the talk,
    scaled so that its epoch with one worker is as long as ours.

    Returns the figure, which a notebook displays with an alternative text. Raises ImportError without matplotlib.
    """
    words = ", ".join(f"{workers}: {each.ms:.0f} ms ({each.first_ms:.0f} before the first batch)"
                      for workers, each in epochs.items())
    talk = ", ".join(f"{workers}: {seconds} s" for workers, seconds in TALK_S.items())
    alt = f"Bar chart, {title}. Workers and time: {words}. The talk's MNIST example, pinned: {talk}."
    figure = new_figure(9.0, 3.6, alt)
    axes = figure.subplots()
    places = {workers: place for place, workers in enumerate(epochs)}
    axes.bar(list(places.values()), [each.first_ms for each in epochs.values()], facecolor="none", edgecolor="#d9541e",
             hatch="////", label="until the first batch is there")
    axes.bar(list(places.values()), [each.ms - each.first_ms for each in epochs.values()],
             bottom=[each.first_ms for each in epochs.values()], facecolor="#3b7dc4aa", edgecolor="#3b7dc4",
             label="the rest of the epoch")
    if 1 in epochs:
        known = {workers: seconds for workers, seconds in TALK_S.items() if workers in epochs}
        axes.plot([places[workers] for workers in known], [epochs[1].ms * s / TALK_S[1] for s in known.values()], "D",
                  color="#7f8b97", markerfacecolor="white", markersize=8, label="the talk's epoch, scaled to our one worker")
        for workers, seconds in known.items():
            axes.annotate(f"{seconds} s", (places[workers], epochs[1].ms * seconds / TALK_S[1]), (0, 8),
                          textcoords="offset points", ha="center", fontsize=8.5)
    # The times stand below the bars: above them they would meet the diamonds.
    axes.set_xticks(list(places.values()), [f"{counted(workers, 'worker')}\n{each.ms:.0f} "
                                            "ms" for workers, each in epochs.items()])
    axes.set_ylim(0, 1.2 * max(each.ms for each in epochs.values()))
    axes.set_yticks([])
    axes.set_title(title, loc="left", fontsize=10.5, fontweight="bold")
    axes.legend(frameon=False, fontsize=8.5, loc="upper right")
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure


def draw_starts(starts: Mapping[int, Watched], title: str):
    """How an epoch begins, below each other for each number of workers: a row for each worker, the main process's and the
    GPU's. An empty place in a row is idle time.

    Returns the figure, as :func:`draw_epochs` does. Raises ImportError without matplotlib.
    """
    figure = new_figure(10.0, 0.9 + sum(0.55 + 0.19 * (len(each.making) + 2) for each in starts.values()),
                        f"Timelines, {title}. " + " ".join(_in_words(workers, each) for workers, each in starts.items()))
    heights = [len(each.making) + 2.6 for each in starts.values()]
    axes = figure.subplots(len(starts), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for place, (workers, each) in zip(axes, starts.items()):
        rows = {f"worker {number}": {"a worker starts": each.starting[number:number + 1], "a worker makes a batch": made}
                for number, made in enumerate(each.making)}
        made_ms = max((begin for begin, _ in each.starting), default=0.0)
        rows["main process"] = {"the main process makes workers": [(0.0, made_ms)] if made_ms else [],
                                "the main process waits for a batch": [(made_ms, each.waits[0][1]), *each.waits[1:]],
                                "the main process launches a step": each.steps}
        rows["GPU"] = {"the GPU works": each.gpu}
        _draw_rows(place, rows)
        end_ms = each.gpu[-1][1]
        place.axvline(end_ms, color="#7f8b97", linestyle="--", linewidth=0.9)
        place.set_title(f"{counted(workers, 'worker')}: {counted(len(each.steps), 'step')} done after {end_ms:.0f} ms",
                        loc="left", fontsize=9.5)
    axes[-1].set_xlabel("ms since the loop asked for its first batch", fontsize=9)
    shown = {label: bar for place in axes for bar, label in zip(*place.get_legend_handles_labels())}
    figure.legend([shown[label] for label in _LOOKS if label in shown], [label for label in _LOOKS if label in shown],
                  loc="outside lower center", ncols=3, frameon=False, fontsize=8.5)
    figure.suptitle(title, x=0.01, ha="left", fontsize=10.5, fontweight="bold")
    return figure


def _draw_rows(axes, rows: Mapping[str, Mapping[str, list[Interval]]]) -> None:
    for row, looks in enumerate(rows.values()):
        for look, spans in looks.items():
            if spans:
                axes.broken_barh([(begin, end - begin) for begin, end in spans], (row - 0.4, 0.8), label=look,
                                 **_LOOKS[look])
    axes.set_yticks(range(len(rows)), list(rows), fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=8)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _in_words(workers: int, each: Watched) -> str:
    started = ""
    if each.starting:
        begins, ends = zip(*each.starting, strict=True)
        first_ms = min(begin for made in each.making for begin, _ in made)
        started = (f" The main process starts them one after another, until {max(begins):.0f} ms; the last is ready at "
                   f"{max(ends):.0f} ms. The first begins its first batch at {first_ms:.0f} ms.")
    idle_ms = sum(begin - before for (begin, _), before in zip(each.gpu[1:], [end for _, end in each.gpu]))
    return (f"{counted(workers, 'worker')}:{started} The first batch is there after {each.waits[0][1]:.0f} ms. From then on "
            f"the GPU is idle for {max(0.0, idle_ms):.0f} ms, and {counted(len(each.steps), 'step')} are done after "
            f"{each.gpu[-1][1]:.0f} ms.")
