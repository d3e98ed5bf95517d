"""Lesson 02: a picture of what it costs to compute all rows, or to select first."""

from __future__ import annotations

from collections.abc import Mapping

from ...evidence.pictures.figure import new_figure


def draw_choices(ms: Mapping[str, float], title: str, unit: str = "ms"):
    """A bar for each way of computing the same: its name → milliseconds, or another ``unit``. The shortest is
    blue.

    Returns the figure, which a notebook displays with an alternative text. Raises ImportError without matplotlib.
    """
    alt = f"Bar chart, {title}: " + ", ".join(f"{name} {value:.2f} {unit}" for name, value in ms.items()) + "."
    figure = new_figure(8.0, 0.5 * len(ms) + 0.7, alt)
    axes = figure.subplots()
    least = min(ms.values())
    bars = axes.barh(list(ms), list(ms.values()), edgecolor="#7f8b97",
                     color=["#3b7dc4" if value == least else "#7f8b9777" for value in ms.values()])
    axes.bar_label(bars, [f"{value:.2f} {unit}" for value in ms.values()], padding=4)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15 * max(ms.values()))
    axes.set_xticks([])
    axes.set_title(title, loc="left", fontsize=10.5, fontweight="bold")
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    return figure
