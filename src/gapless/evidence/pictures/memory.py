"""A picture of the GPU's memory over a step, by what it is for: areas on top of each other.

Each category has a hatch of its own and its name written into its area, so that nothing depends on colour alone.
"""

from __future__ import annotations

from typing import Any

from ...words import origin
from ..traces.memory import CATEGORIES, MemoryByCategory, memory_by_category
from ..traces.trace import Trace
from .figure import new_figure

# From below: what stays comes first, so that what moves lies on even ground.
_LOOKS: dict[str, dict[str, Any]] = {
    "parameters": {"facecolor": "#16936c55", "edgecolor": "#16936c", "hatch": ""},
    "optimizer state": {"facecolor": "#a8780055", "edgecolor": "#a87800", "hatch": "---"},
    "gradients": {"facecolor": "#3b7dc455", "edgecolor": "#3b7dc4", "hatch": "////"},
    "from before": {"facecolor": "#7f8b9733", "edgecolor": "#7f8b97", "hatch": "..."},
    "inputs": {"facecolor": "#7f8b9733", "edgecolor": "#7f8b97", "hatch": "|||"},
    "activations": {"facecolor": "#d9541e55", "edgecolor": "#d9541e", "hatch": "\\\\\\\\"},
    "temporary": {"facecolor": "#9a63c455", "edgecolor": "#9a63c4", "hatch": "xxx"},
    "workspaces": {"facecolor": "none", "edgecolor": "#9a63c4", "hatch": "ooo"},
}
_LEAST_SHARE = 0.06  # of the picture's height, for a name to have room in an area
_LEAST_WIDTH = 0.12
_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("bytes", 1))


def memory_picture(before: Trace | MemoryByCategory, after: Trace | MemoryByCategory | None = None):
    """Draw the memory of one recording of :func:`gapless.memory_profile`, or of two side by side on one scale.

    Returns the figure, which a notebook displays; without matplotlib, prints the tables and returns None. Raises ValueError
    as :func:`gapless.views.memory_by_category`.
    """
    views = [each if isinstance(each, MemoryByCategory) else memory_by_category(each) for each in (before, after)
             if each is not None]
    words = ["before", "after"] if len(views) == 2 else [""]
    alt = " ".join(f"{word.capitalize()}: {alt_text(view)}" if word else alt_text(view) for word, view in zip(words, views))
    try:
        figure = new_figure(10.0 if len(views) == 2 else 8.0, 3.8, alt)
    except ImportError:
        print("\n\n".join(f"{word}\n{view}".strip() for word, view in zip(words, views)))
        return None
    most = max(view.peak_bytes for view in views)
    unit, size = next((unit, size) for unit, size in _UNITS if most >= size or size == 1)
    panels = figure.subplots(1, len(views), sharey=True, squeeze=False)[0]
    for panel, view, word in zip(panels, views, words):
        _paint(panel, view, word, unit, size, 1.18 * most / size)
    panels[0].set_ylabel(unit)
    present = {row.category for view in views for row in view.rows}
    from matplotlib.patches import Patch

    shown = [Patch(label=name, linewidth=0.6, **_LOOKS[name]) for name in CATEGORIES if name in present]
    figure.legend(handles=shown, loc="outside lower center", ncols=4, frameon=False, fontsize=8.5, handlelength=2.4,
                  handleheight=1.3)
    return figure


def alt_text(view: MemoryByCategory) -> str:
    """The picture in two sentences."""
    parts = ", ".join(f"{row.category} {short_bytes(row.at_peak_bytes)}"
                      for row in sorted(view.rows, key=lambda row: -row.at_peak_bytes) if row.at_peak_bytes)
    place = origin(view.simulated, view.device_name)
    return (f"Memory over time, {place}. The peak is {short_bytes(view.peak_bytes)}, "
            f"{view.peak_ms:.2f} ms after the step's start: {parts}.")


def short_bytes(nbytes: float) -> str:
    """Such as "12.5 MiB"."""
    unit, size = next((unit, size) for unit, size in _UNITS if nbytes >= size or size == 1)
    return f"{nbytes / size:.3g} {unit}"


def _paint(ax, view: MemoryByCategory, word: str, unit: str, size: int, top: float) -> None:
    times = [ms for ms, _ in view.points]
    end_ms = max(times) or 1.0
    below = [0.0] * len(times)
    for place, name in enumerate(CATEGORIES):
        heights = [point[place] / size for _, point in view.points]
        if not any(heights):
            continue
        above = [low + height for low, height in zip(below, heights)]
        ax.fill_between(times, below, above, step="post", linewidth=0.6, **_LOOKS[name])
        _name(ax, name, times, below, above, end_ms, top)
        below = above
    ax.step(times, below, where="post", color="black", linewidth=0.9)
    peak = view.peak_bytes / size
    ax.annotate(f"peak {short_bytes(view.peak_bytes)}", (view.peak_ms, peak), (0.5, 0.965), textcoords=ax.transAxes,
                ha="center", va="top", fontsize=9, fontweight="bold",
                arrowprops={"arrowstyle": "->", "color": "black", "linewidth": 0.8})
    ax.set_xlim(0, end_ms)
    ax.set_ylim(0, top)
    place = origin(view.simulated, view.device_name)
    ax.set_title(f"{word} – {place}".removeprefix(" – "), loc="left", fontsize=10.5, fontweight="bold")
    ax.set_xlabel("ms on the host from the step's start", fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)


def _name(ax, name: str, times, below, above, end_ms: float, top: float) -> None:
    """The category's name where its area is wide and high enough, if anywhere."""
    best, start = None, None
    for place in range(len(times)):
        enough = above[place] - below[place] >= _LEAST_SHARE * top
        if enough and start is None:
            start = place
        if start is not None and (not enough or place == len(times) - 1):
            width = times[place] - times[start]
            if best is None or width > best[0]:
                best = width, start, place
            start = None
    if best is None or best[0] < _LEAST_WIDTH * end_ms:
        return
    _, first, last = best
    # Where the area is highest on that stretch, not at its very ends.
    middle = max(range(first, last), key=lambda place: above[place] - below[place])
    ms = min(max(times[middle], times[first] + best[0] * 0.35), times[last] - best[0] * 0.35)
    at = max(place for place in range(first, last) if times[place] <= ms)
    ax.text(ms, (below[at] + above[at]) / 2, name, ha="center", va="center", fontsize=8.5, color="#222222",
            bbox={"facecolor": "#ffffff", "edgecolor": "none", "boxstyle": "round,pad=0.15", "alpha": 0.85}, zorder=5)
