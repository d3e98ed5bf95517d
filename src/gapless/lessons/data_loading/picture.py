"""Lesson 04: a picture of what an epoch takes with more and more workers."""

from __future__ import annotations

from collections.abc import Mapping

from ...evidence.picture import new_figure
from .workload import Epoch

# Seconds an epoch of the talk's MNIST example, with pinned memory: "PyTorch Performance Tuning Guide" (ECCV 2020).
TALK_S = {1: 6.7, 4: 4.1, 8: 4.5}


def draw_epochs(epochs: Mapping[int, Epoch], title: str):
    """A bar for each number of workers, the part before the first batch hatched; a diamond where the talk has a figure,
    drawn so that its epoch with one worker is as long as ours.

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
    bars = axes.bar(list(places.values()), [each.ms - each.first_ms for each in epochs.values()],
                    bottom=[each.first_ms for each in epochs.values()], facecolor="#3b7dc4aa", edgecolor="#3b7dc4",
                    label="the rest of the epoch")
    axes.bar_label(bars, [f"{each.ms:.0f} ms" for each in epochs.values()], padding=3, fontsize=9)
    if 1 in epochs:
        known = {workers: seconds for workers, seconds in TALK_S.items() if workers in epochs}
        axes.plot([places[workers] for workers in known], [epochs[1].ms * s / TALK_S[1] for s in known.values()], "D",
                  color="#7f8b97", markerfacecolor="white", markersize=8, label="the talk's, beside its one worker")
        for workers, seconds in known.items():
            axes.annotate(f"{seconds} s", (places[workers], epochs[1].ms * seconds / TALK_S[1]), (9, -3),
                          textcoords="offset points", fontsize=8.5)
    axes.set_xticks(list(places.values()), [str(workers) for workers in epochs])
    axes.set_xlabel("workers", fontsize=9)
    axes.set_ylim(0, 1.12 * max(each.ms for each in epochs.values()))
    axes.set_yticks([])
    axes.set_title(title, loc="left", fontsize=10.5, fontweight="bold")
    axes.legend(frameon=False, fontsize=8.5, loc="upper right")
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure
