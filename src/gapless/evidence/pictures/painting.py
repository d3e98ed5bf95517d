"""A scene painted into matplotlib axes: the host above, the GPU's streams below.

The height of a bar is the share of time (:mod:`.columns`). Nothing depends on colour alone: waits and copies are hatched,
so that a picture survives a grey printer. The colours stand out from a light page and from a dark one; text and axes are
in the page's ink (:mod:`.themed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..traces.intervals import length
from .columns import COLUMNS, outlines
from .labels import Label, characters_ms, place_labels
from .scene import COPIES, EARLIER, KERNELS, OPERATORS, WAITS, Row, Scene, short_ms

ROW_IN = 0.5  # inches for one unit of the vertical axis
LABEL_PT = 8
GREY, ORANGE = "#7f8b97", "#d9541e"
# The last two digits of a colour are its opacity. No outlines: they would add to a bar of a pixel's width more than it has.
LOOKS: dict[str, dict[str, Any]] = {
    OPERATORS: {"facecolor": "#7f8b9766", "edgecolor": GREY, "linewidth": 0},
    WAITS: {"facecolor": "#d9541e55", "edgecolor": ORANGE, "linewidth": 0, "hatch": "////"},
    KERNELS: {"facecolor": "#3b7dc4", "edgecolor": "#3b7dc4", "linewidth": 0},
    COPIES: {"facecolor": "#16936c55", "edgecolor": "#16936c", "linewidth": 0, "hatch": "xxxxx"},
    EARLIER: {"facecolor": "#5f8fc433", "edgecolor": "#5f8fc4", "linewidth": 0, "hatch": "..."},
}
# A label lies on bars and hatches: it brings its own ground and ink.
TAG = {"facecolor": "#fff3ea", "edgecolor": ORANGE, "linewidth": 0.5}
TAG_INK = "#6b2406"
HEIGHT = "Height is the share of time: a row filled to half its height is busy half of the time."
_LEGEND = {"ncols": 5, "frameon": False, "fontsize": 8.5, "handlelength": 2.4, "handleheight": 1.1, "title": HEIGHT,
           "title_fontsize": 8.5}
_HOST, _STREAM, _BETWEEN = 1.0, 0.75, 0.25  # heights, in units of the vertical axis
_LEVEL = 0.42
_APART = 4  # columns: a stroke separates waits that wide from their neighbours


class Panel:
    """One scene with its labels, on a picture that ends at ``end_ms``. The vertical axis points down."""

    def __init__(self, scene: Scene, end_ms: float) -> None:
        self.scene, self.end_ms = scene, end_ms
        self.labels = place_labels(scene.waits, len(scene.step_starts), end_ms)

    @property
    def top(self) -> float:
        """The upper edge of the vertical axis, which leaves room for the labels."""
        return -0.12 - _LEVEL * (max((label.level for label in self.labels), default=-1) + 1)

    @property
    def bottom(self) -> float:
        """The lower edge of the vertical axis, below the streams."""
        return _HOST + max(len(self.scene.streams), 1) * (_BETWEEN + _STREAM) + 0.1

    @property
    def places(self) -> list[tuple[Row, float, float]]:
        """Each row with its baseline and its height."""
        streams = [(row, _HOST + (number + 1) * (_BETWEEN + _STREAM), _STREAM)
                   for number, row in enumerate(self.scene.streams)]
        return [(self.scene.host, _HOST, _HOST), *streams]

    def paint(self, ax, title: str) -> None:
        """Paint all of it into the axes."""
        scene, end_ms = self.scene, self.end_ms
        for row, baseline, height in self.places:
            for kind, polygons in zip(row.kinds, outlines(row.kinds.values(), end_ms)):
                fill(ax, [np.column_stack([each[:, 0], baseline - height * each[:, 1]]) for each in polygons],
                     LOOKS[kind], f"{row.name}: {kind}")
            ax.axhline(baseline, color=GREY, linewidth=0.6, zorder=1)
            ax.axhline(baseline - height, color=GREY, linewidth=0.4, linestyle=":", zorder=1)
            ax.text(1.008 * end_ms, baseline - height / 2, _note(row, scene), va="center", fontsize=LABEL_PT)
        names = [(row.name, baseline - height / 2) for row, baseline, height in self.places]
        if not scene.streams:
            names.append(("GPU", self.bottom - 0.5))
            ax.text(end_ms / 2, self.bottom - 0.5, "no work in this trace", ha="center", va="center", fontsize=LABEL_PT)
        wide = [wait.start_ms for wait in scene.waits if wait.wait_ms * COLUMNS >= _APART * end_ms]
        ax.vlines(wide, 0.0, _HOST, color=ORANGE, linewidth=0.8, zorder=3)
        paint_labels(ax, self.labels)
        self._paint_steps(ax)
        dress(ax, end_ms, names)
        ax.set_ylim(self.bottom, self.top)
        start = scene.step_starts[0][1] if scene.step_starts else "the first event"
        ax.set_xlabel(f"ms from the start of {start}", fontsize=9)
        ax.set_title(title, loc="left", fontsize=10, fontweight="bold", pad=20)

    def _paint_steps(self, ax) -> None:
        scene, end_ms = self.scene, self.end_ms
        edges = [start_ms for start_ms, _ in scene.step_starts]
        if scene.last_step_end_ms is not None:
            edges.append(scene.last_step_end_ms)
        ax.vlines(edges, 0.0, self.bottom, color=GREY, linewidth=0.9, linestyle=(0, (5, 3)), zorder=1.5)
        ax.vlines(edges, self.top, 0.0, color=GREY, linewidth=0.6, linestyle=":", zorder=1.5)  # among the labels
        free_from_ms = float("-inf")
        for start_ms, label in scene.step_starts:
            if start_ms >= free_from_ms:
                ax.text(start_ms, self.top - 0.06, label, va="bottom", fontsize=LABEL_PT)
                free_from_ms = start_ms + characters_ms(label + " ", end_ms)
        if scene.last_step_end_ms is not None and scene.last_step_end_ms < 0.05 * end_ms:
            # The host's steps are one stroke at this scale.
            text = f"  the host is done after {short_ms(scene.last_step_end_ms)}"
            ax.text(scene.last_step_end_ms, 0.45, text, va="bottom", fontsize=LABEL_PT, zorder=5)


def fill(ax, polygons: Sequence[np.ndarray], look: dict[str, Any], name: str) -> None:
    """Paint polygons, arrays of shape (points, 2), as one artist with the ``name`` as its label."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    if polygons:
        path = Path.make_compound_path(*[Path(points, closed=True) for points in map(_closed, polygons)])
        # Not add_patch: that looks how far the axes reach, which are given theirs. Not snapped: that would round each
        # column's edges to whole pixels.
        ax.add_artist(PathPatch(path, label=name, zorder=2, snap=False, **look))


def dress(ax, end_ms: float, rows: Sequence[tuple[str, float]]) -> None:
    """The axes themselves: time from 0 to ``end_ms``, the rows' names at their heights, no frame."""
    ax.set_xlim(-0.005 * end_ms, 1.005 * end_ms)
    ax.set_yticks([middle for _, middle in rows], [name for name, _ in rows], fontsize=9)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=8.5, color=GREY)
    ax.spines[["top", "left", "right"]].set_visible(False)
    ax.spines["bottom"].set_color(GREY)


def paint_labels(ax, labels: Sequence[Label]) -> None:
    """The waits' labels: in their bars, or as flags above the host's row."""
    for label in labels:
        if label.level < 0:
            ax.text(label.middle_ms, 0.5, label.text, ha="center", va="center", fontsize=LABEL_PT, color=TAG_INK,
                    bbox={**TAG, "boxstyle": "round,pad=0.25"}, zorder=5)
            continue
        y = -0.1 - label.level * _LEVEL
        ax.plot([label.middle_ms, label.middle_ms], [0.0, y - _LEVEL * 0.8], color=ORANGE, linewidth=0.8, zorder=5.5)
        side = "left" if label.right_ms > label.middle_ms else "right"
        text = f" {label.text}" if side == "left" else f"{label.text} "
        ax.text(label.middle_ms, y, text, ha=side, va="bottom", fontsize=LABEL_PT, zorder=5)


def put_legend(where, scenes: Sequence[Scene], **place) -> None:
    """The legend of the kinds that the scenes have, into a figure or axes."""
    from matplotlib.patches import Patch

    used = {OPERATORS, WAITS}
    for scene in scenes:
        used |= {kind for row in scene.streams for kind, moments in row.kinds.items() if len(moments)}
    where.legend(handles=[Patch(label=kind, **look) for kind, look in LOOKS.items() if kind in used], **place, **_LEGEND)


def percent(share: float) -> str:
    """A share of time as a picture writes it: 0 % and 100 % are exact."""
    if 0 < share < 0.01:
        return "< 1 %"
    return "> 99 %" if 0.99 < share < 1 - 1e-6 else f"{100 * share:.0f} %"


def _note(row: Row, scene: Scene) -> str:
    """What a row's heights come to: a stream's from the first moment shown to the last, the host's until its steps end."""
    if row is not scene.host:
        return f"busy {percent(row.busy_ms / scene.end_ms)}"
    return f"waits {percent(length(row.kinds[WAITS]) / (scene.last_step_end_ms or scene.end_ms))}"


def _closed(points: np.ndarray) -> np.ndarray:
    return np.concatenate([points, points[:1]])
