"""A typical millisecond of a timeline, in which each kernel is a bar of its own: a row for each kind of work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...words import counted
from ..traces.intervals import length_before, union
from ..traces.kinds import kinds_of
from ..traces.trace import Span
from .columns import COLUMNS
from .figure import new_figure
from .labels import WIDTH_IN, characters_ms
from .painting import GREY, LABEL_PT, LOOKS, ROW_IN, dress, fill, percent
from .scene import OPERATORS, WAITS, Part, device_of, part_of, short_ms, waits_of

WINDOW_MS = 1.0
_LEAST_MS = 3 * WINDOW_MS  # of a step: a millisecond of less is most of it
_EVERY_MS = 0.05  # windows begin so far apart
_ROWS = 10  # of the GPU
_PITCH, _HEIGHT = 0.62, 0.46  # of a row, in units of the vertical axis
# A row's name tells the kind; the colours and hatches only repeat it.
_COLOURS = {"matrix products": ("#3b7dc4", ""), "convolutions": ("#5b74d6", "\\\\\\\\"), "attention": ("#5b74d6", "++"),
            "elementwise": ("#a87800", ""), "reductions and losses": ("#c2487f", ""), "normalisation": ("#2b8a9b", ""),
            "indexing and sorting": ("#8a7250", ""), "optimizer": ("#6b8a2b", ""), "copies": ("#16936c", "xxxxx"),
            "communication": ("#9a63c4", "||||"), "other": (GREY, "")}


@dataclass(frozen=True)
class _Bars:
    """One row: its name, its look, and (start, end, text) of each bar in ms from the window's start."""

    name: str
    look: dict[str, Any]
    bars: list[tuple[float, float, str]]

    @property
    def busy_ms(self) -> float:
        """How much of the window the bars cover."""
        covered = length_before(union(bar[:2] for bar in self.bars), np.array([0.0, WINDOW_MS]))
        return float(covered[1] - covered[0])


def draw_millisecond(report):
    """Draw one typical millisecond of a :class:`gapless.StepReport`: each operator, wait, kernel and copy by itself, a row
    for each kind of kernel.

    It is the millisecond in which the GPU is busy for the same share as in all the time that :func:`.picture.draw` shows,
    to a percent or as near as there is; of several such, the one that is most like the whole in its kinds of work. Returns
    the Figure, or None where the whole picture is enough: a step takes less than 3 ms, or most of the GPU's work is in bars
    wider than a pixel. Raises ImportError without matplotlib, ValueError for a report without its trace.
    """
    part = part_of(report)
    work = [*part.work, *part.earlier]
    step_ms = (part.end_us - part.origin_us) / 1e3 / max(len(part.chosen), 1)
    if not work or step_ms < _LEAST_MS or _wide(part, work):
        return None
    kinds = kinds_of(work, report.trace.spans)
    waits = [(wait.start_ms, wait.start_ms + wait.wait_ms, wait.text) for wait in waits_of(report, part)]
    operators = [(*_ms(span, part), span.name) for span in _outermost(part.host)]
    start_ms, whole, here = _typical(part, work, kinds, operators, waits)
    rows = [_Bars(name, LOOKS[name], _cut(bars, start_ms)) for name, bars in ((OPERATORS, operators), (WAITS, waits))]
    rows += _device_rows(work, kinds, part, start_ms)
    title = f"{device_of(report)}, a typical millisecond: GPU busy {percent(here)}"
    figure = new_figure(WIDTH_IN, len(rows) * _PITCH * ROW_IN + 1.0, _in_words(rows, start_ms, here, whole))
    _paint(figure.subplots(), rows, start_ms, title, f"step {part.chosen[0]}" if part.chosen else "the first event")
    return figure


def _wide(part: Part, work: Sequence[Span]) -> bool:
    """Whether most of the work is in bars that the whole picture tells apart."""
    column_us = (part.end_us - part.origin_us) / COLUMNS
    lengths = [span.end_us - span.start_us for span in work]
    return sum(us for us in lengths if us >= column_us) > 0.5 * sum(lengths)


def _typical(part: Part, work, kinds, operators, waits) -> tuple[float, float, float]:
    """Where the typical millisecond begins, in ms from the first step shown; the GPU's busy share of all the time shown, and
    of that millisecond."""
    by_kind: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for span, kind in zip(work, kinds):
        by_kind[kind].append(_ms(span, part))
    everything = union(_ms(span, part) for span in work)
    mixes = [union(bars) for bars in by_kind.values()] + [union(bar[:2] for bar in bars) for bars in (operators, waits)]
    end_ms = (part.end_us - part.origin_us) / 1e3
    starts_ms = np.arange(0.0, end_ms - WINDOW_MS, _EVERY_MS)

    def shares(moments: np.ndarray) -> tuple[float, np.ndarray]:
        ends = length_before(moments, np.array([0.0, end_ms]))
        inside = length_before(moments, starts_ms + WINDOW_MS) - length_before(moments, starts_ms)
        return float(ends[1] - ends[0]) / end_ms, inside / WINDOW_MS

    whole, busy = shares(everything)
    points = np.floor(100 * np.abs(busy - whole))
    unlike = np.sum([np.abs(inside - share) for share, inside in map(shares, mixes)], axis=0)
    best = int(np.lexsort((unlike, points))[0])
    return float(starts_ms[best]), whole, float(busy[best])


def _device_rows(work, kinds, part: Part, start_ms: float) -> list[_Bars]:
    """The GPU's rows, by stream and then by time; the least busy ones share the last."""
    several = len({span.thread for span in work}) > 1
    bars: dict[tuple[str, str], list] = defaultdict(list)
    for span, kind in zip(work, kinds):
        bars[f"stream {span.thread[1]}: " if several else "", kind].append((*_ms(span, part), span.name))
    rows = [_Bars(stream + kind, _look(kind), _cut(each, start_ms)) for (stream, kind), each in bars.items()]
    rows = sorted((row for row in rows if row.bars), key=lambda row: -row.busy_ms)
    kept, rest = rows[: _ROWS - 1], rows[_ROWS - 1 :]
    if len(rest) > 1:
        rest = [_Bars(f"{len(rest)} more", _look("other"), [bar for row in rest for bar in row.bars])]
    return sorted(kept, key=lambda row: (*_in_order(row.name.partition(":")[0] if several else ""), -row.busy_ms)) + rest


def _in_order(stream: str) -> tuple[int, str]:
    """What sorts stream 7 before stream 20."""
    return len(stream), stream


def _look(kind: str) -> dict[str, Any]:
    colour, hatch = _COLOURS[kind]
    return {"facecolor": f"{colour}66", "edgecolor": colour, "hatch": hatch}


def _paint(ax, rows: Sequence[_Bars], start_ms: float, title: str, origin: str) -> None:
    for place, row in enumerate(rows):
        low = (place + 1) * _PITCH
        boxes = [np.array([[left, low], [right, low], [right, low - _HEIGHT], [left, low - _HEIGHT]])
                 for left, right, _ in row.bars]
        fill(ax, boxes, {**row.look, "linewidth": 0.5}, row.name)
        ax.axhline(low, color=GREY, linewidth=0.5, zorder=1)
        note = f"{percent(row.busy_ms / WINDOW_MS)} ({counted(len(row.bars), 'bar')})"
        ax.text(1.008 * WINDOW_MS, low - _HEIGHT / 2, note, va="center", fontsize=LABEL_PT)
        free_from_ms = 0.0
        for left, right, text in sorted(row.bars):
            left, right = max(left, free_from_ms), min(right, WINDOW_MS)
            if characters_ms(text, WINDOW_MS) < right - left:
                ax.text((left + right) / 2, low - _HEIGHT / 2, text, ha="center", va="center", fontsize=LABEL_PT, zorder=5)
                free_from_ms = right
    dress(ax, WINDOW_MS, [(row.name, (place + 1) * _PITCH - _HEIGHT / 2) for place, row in enumerate(rows)])
    ax.set_ylim(len(rows) * _PITCH + 0.08, 0.0)
    ticks = np.linspace(0.0, WINDOW_MS, 6)
    ax.set_xticks(ticks, [f"{start_ms + tick:.2f}" for tick in ticks])
    ax.set_xlabel(f"ms from the start of {origin}", fontsize=9)
    ax.set_title(title, loc="left", fontsize=10, fontweight="bold")


def _in_words(rows: Sequence[_Bars], start_ms: float, here: float, whole: float) -> str:
    counts = "; ".join(f"{row.name} {percent(row.busy_ms / WINDOW_MS)}, {counted(len(row.bars), 'bar')}" for row in rows)
    return (f"One typical millisecond, {short_ms(start_ms)} after the start. The GPU is busy for {percent(here)} of it, and "
            f"for {percent(whole)} of all the time shown. A row for each kind of work: {counts}.")


def _outermost(host: Sequence[Span]) -> list[Span]:
    """The operators that no other operator of their thread is around."""
    reached_us: dict[tuple, float] = {}
    found = []
    for span in host:
        if span.category == "op" and span.start_us >= reached_us.get(span.thread, float("-inf")):
            found.append(span)
            reached_us[span.thread] = span.end_us
    return found


def _ms(span: Span, part: Part) -> tuple[float, float]:
    """A span's start and end in ms from the first step shown."""
    return (span.start_us - part.origin_us) / 1e3, (span.end_us - part.origin_us) / 1e3


def _cut(bars, start_ms: float) -> list[tuple[float, float, str]]:
    """The bars that reach into the window, cut at its edges, in ms from its start."""
    return [(max(left - start_ms, 0.0), min(right - start_ms, WINDOW_MS), text) for left, right, text in bars
            if right > start_ms and left < start_ms + WINDOW_MS]
