"""Lesson 08: a search for the largest batch, call by call: what is reserved and what is allocated of it, to be looked at."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ....course.exercise import full_size
from ....evidence.pictures.figure import new_figure
from ....measure.device import origin_of
from ..workload import MOST, training

GIB = 2**30


def reserved_and_allocated(search: Callable, device: torch.device) -> list[tuple[int, bool, float, float]]:
    """Of each call that ``search(step, most)`` makes of the slow program's step: the batch, whether it fitted, and GiB that
    were reserved when it began and allocated when it ended or failed."""
    found, module = [], torch.get_device_module(device)
    with full_size(device):
        step = training(device)
        module.empty_cache()

        def watched(batch):
            reserved, fits = module.memory_reserved() / GIB, False
            try:
                step(batch)
                fits = True
            finally:
                found.append((batch, fits, reserved, module.max_memory_allocated() / GIB))
                module.reset_peak_memory_stats()

        module.reset_peak_memory_stats()
        search(watched, MOST)
    return found


def draw_reserved(search: Callable, device: torch.device):
    """What is reserved when a call of the step begins (line), and what it then allocates at most (bars; hatched where it
    fails). Returns a figure. Raises ImportError without matplotlib."""
    calls = reserved_and_allocated(search, device)
    place = origin_of(device)
    words = "; ".join(f"batch {batch} {'fits' if fits else 'fails'}: {reserved:.1f} reserved before, {most:.1f} "
                      "allocated at most" for batch, fits, reserved, most in calls)
    figure = new_figure(9.0, 3.4, f"Bar chart of a search's calls, GiB, {place}. {words}.")
    axes = figure.subplots()
    for fits, hatch, label in ((True, "", "allocated at most: it fits"), (False, "////", "allocated at most: it fails")):
        chosen = [(place, most) for place, (_, good, _, most) in enumerate(calls) if good == fits]
        if chosen:
            axes.bar(*zip(*chosen), width=0.7, facecolor="#3b7dc455", edgecolor="#3b7dc4", hatch=hatch, label=label)
    axes.plot(range(len(calls)), [reserved for _, _, reserved, _ in calls], "o--", color="#a87800", linewidth=1,
              markersize=4, label="reserved when it begins")
    axes.set_xticks(range(len(calls)), [str(batch) for batch, *_ in calls], fontsize=8)
    axes.set_xlabel("batch of each call")
    axes.set_title(f"GiB reserved and allocated ({place})", loc="left", fontsize=10.5,
                   fontweight="bold")
    axes.set_ylim(0, 1.45 * max([1, *(max(call[2:]) for call in calls)]))  # room for the legend
    axes.legend(frameon=False, fontsize=9, loc="upper left", ncols=3)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
