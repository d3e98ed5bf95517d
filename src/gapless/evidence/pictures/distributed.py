"""Pictures of a run of several ranks: what each rank's step is made of, and when each of them computed, came and waited.

Nothing depends on colour alone: every kind has a hatch of its own, and waiting is named.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ranks.distributed import LOADER, DistributedView, distributed_view, rank_activity
from ..ranks.meetings import clock_offsets_us, meet
from ..ranks.run import Traces, read_ranks
from ..traces.communication import find_collectives
from ..traces.intervals import length, union, within
from ..traces.trace import TraceError
from ..traces.windows import step_windows
from .figure import new_figure

_BLUE, _GREEN, _ORANGE, _VIOLET, _GREY = "#3b7dc4", "#16936c", "#d9541e", "#9a63c4", "#7f8b97"
_LOOKS: dict[str, dict[str, Any]] = {
    "computing": {"facecolor": _BLUE, "edgecolor": _BLUE, "linewidth": 0.3},
    "both at once": {"facecolor": "#3b7dc455", "edgecolor": _BLUE, "linewidth": 0.7, "hatch": "\\\\\\\\"},
    "communicating": {"facecolor": "none", "edgecolor": _VIOLET, "linewidth": 0.9, "hatch": "||||"},
    "other": {"facecolor": "#7f8b9733", "edgecolor": _GREY, "linewidth": 0.5, "hatch": "..."},
    "transfer": {"facecolor": "none", "edgecolor": _GREEN, "linewidth": 0.9, "hatch": "xxxx"},
    "waiting": {"facecolor": "none", "edgecolor": _ORANGE, "linewidth": 0.9, "hatch": "////"},
    "fetching a batch": {"facecolor": "#7f8b9755", "edgecolor": _GREY, "linewidth": 0.5},
}
_ROW_IN = 0.42


def distributed_picture(view: DistributedView | Traces, *, partial: bool = False):
    """Draw a :func:`gapless.views.distributed_view`, or that of the traces given: on the left what a rank's step is made of,
    on the right what of its communication is transfer and what waiting.

    Returns the figure, which a notebook displays; without matplotlib, prints the tables and returns None. Raises TraceError
    as the view does.
    """
    if not isinstance(view, DistributedView):
        view = distributed_view(view, partial=partial)
    try:
        figure = new_figure(10.0, 1.6 + _ROW_IN * len(view.times), _view_in_words(view))
    except ImportError:
        print(view)
        return None
    panels = figure.subplots(1, 2 if view.waiting else 1, sharey=True, squeeze=False)[0]
    labels = [f"rank {row.rank}" for row in view.times]
    _bars(panels[0], {"computing": [row.computing_us for row in view.times],
                      "both at once": [row.overlap_us for row in view.times],
                      "communicating": [row.communication_us for row in view.times],
                      "other": [row.other_us for row in view.times]})
    panels[0].set_title(f"a step – {_kind(view)}", loc="left", fontsize=10.5, fontweight="bold")
    if view.waiting:
        by_rank = {row.rank: row for row in view.waiting}
        rows = [by_rank.get(row.rank) for row in view.times]
        _bars(panels[1], {"transfer": [row.transfer_us if row else 0.0 for row in rows],
                          "waiting": [row.waiting_us if row else 0.0 for row in rows]})
        panels[1].set_title("its communication", loc="left", fontsize=10.5, fontweight="bold")
    panels[0].set_yticks(range(len(labels)), labels, fontsize=9)
    panels[0].invert_yaxis()
    _legend(figure, ["computing", "both at once", "communicating", "other",
                     *(["transfer", "waiting"] if view.waiting else [])])
    return figure


@dataclass(frozen=True)
class _Row:
    """What one rank did in a step, as sets of intervals in ms from the picture's left edge."""

    rank: int
    computing: np.ndarray
    loading: np.ndarray
    transfer: np.ndarray
    waiting: np.ndarray
    end_ms: float


def ranks_picture(traces: Traces, *, step: str | int | None = None, partial: bool = False):
    """Draw one step of every rank on one time scale: when it fetched its batch, computed, waited in a collective, and when
    data went over the links. Clocks that disagree are put right by the ends of the collectives.

    ``step``: the number that the profiler gave it; if None, the second of those that all ranks have, or the only one.
    Returns the figure; without matplotlib, prints what it would show and returns None. Raises TraceError as
    :func:`gapless.views.straggler`, ValueError where no such step is there.
    """
    rows, name, kind = _rows(read_ranks(traces, partial=partial), None if step is None else str(step))
    alt = _rows_in_words(rows, name, kind)
    try:
        figure = new_figure(10.0, 1.5 + 0.62 * len(rows), alt)
    except ImportError:
        print(alt)
        return None
    ax = figure.subplots()
    for place, row in enumerate(rows):
        _strips(ax, row.loading, "fetching a batch", place + 0.02, 0.14)
        _strips(ax, row.computing, "computing", place + 0.18, 0.3)
        _strips(ax, row.waiting, "waiting", place + 0.52, 0.26)
        _strips(ax, row.transfer, "transfer", place + 0.52, 0.26)
    end_ms = max(row.end_ms for row in rows)
    ax.set_xlim(-0.005 * end_ms, 1.005 * end_ms)
    ax.set_ylim(len(rows), -0.1)
    ax.set_yticks([place + 0.42 for place in range(len(rows))], [f"rank {row.rank}" for row in rows], fontsize=9)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=8.5, color=_GREY)
    ax.spines[["top", "left", "right"]].set_visible(False)
    ax.spines["bottom"].set_color(_GREY)
    ax.set_xlabel(f"ms from the start of step {name}", fontsize=9)
    ax.set_title(f"step {name} of every rank – {kind}", loc="left", fontsize=10.5, fontweight="bold")
    _legend(figure, ["fetching a batch", "computing", "waiting", "transfer"])
    return figure


def _rows(ranks, wanted: str | None) -> tuple[list[_Row], str, str]:
    collectives = {rank: find_collectives(trace) for rank, trace in ranks.items()}
    meetings = meet(collectives, ranks)
    if not meetings:
        raise TraceError("the ranks never communicate: record steps in which they do, with the CUDA activity")
    windows = {rank: {window.name: window for window in step_windows(trace)} for rank, trace in ranks.items()}
    common = [name for name in next(iter(windows.values())) if all(name in each for each in windows.values())]
    if not common or (wanted is not None and wanted not in common):
        raise ValueError(f"no step {wanted or ''} is on every rank; there {'are' if common else 'is'} "
                         f"{', '.join(common) or 'none'}")
    name = wanted if wanted is not None else common[min(1, len(common) - 1)]
    offsets = clock_offsets_us(meetings)
    starts = {rank: windows[rank][name].start_us - offsets.get(rank, 0.0) for rank in ranks}
    origin_us = min(starts.values())
    rows = []
    for rank, trace in ranks.items():
        window, shift_us = windows[rank][name], offsets.get(rank, 0.0) + origin_us
        computing, _ = rank_activity(trace, collectives[rank])
        loading = union((span.start_us, span.end_us) for span in trace.spans
                        if span.category in ("op", "annotation") and span.name.startswith(LOADER))
        data, waiting = [], []
        for meeting in meetings:
            if rank not in meeting.of_rank:
                continue
            members = meeting.of_rank.values()
            for place, span in enumerate(meeting.of_rank[rank].work):
                least_us = min(each.work[place].end_us - each.work[place].start_us for each in members)
                data.append((span.end_us - least_us, span.end_us))
                waiting.append((span.start_us, span.end_us - least_us))
        shown = [(within(found, window.start_us, window.end_us) - shift_us) / 1e3
                 for found in (computing, loading, union(data), union(waiting))]
        rows.append(_Row(rank, shown[0], shown[1], shown[2], shown[3], (window.end_us - shift_us) / 1e3))
    return rows, name, _kind(next(iter(ranks.values())))


def _kind(of) -> str:
    return f"{'simulated' if of.simulated else 'measured'} {of.device_name}"


def _bars(ax, parts: dict[str, list[float]]) -> None:
    left = np.zeros(len(next(iter(parts.values()))))
    for name, values_us in parts.items():
        widths = np.asarray(values_us) / 1e3
        ax.barh(range(len(widths)), widths, left=left, height=0.66, **_LOOKS[name])
        left = left + widths
    ax.set_xlabel("ms", fontsize=9)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=8.5, color=_GREY)
    ax.spines[["top", "left", "right"]].set_visible(False)
    ax.spines["bottom"].set_color(_GREY)


def _strips(ax, intervals: np.ndarray, kind: str, top: float, height: float) -> None:
    from matplotlib.patches import Rectangle

    for start_ms, end_ms in intervals:
        ax.add_artist(Rectangle((start_ms, top), end_ms - start_ms, height, **_LOOKS[kind]))


def _legend(figure, names: list[str]) -> None:
    from matplotlib.patches import Patch

    figure.legend(handles=[Patch(label=name, **_LOOKS[name]) for name in names], loc="outside lower center", ncols=6,
                  frameon=False, fontsize=8.5, handlelength=2.4, handleheight=1.1)


def _view_in_words(view: DistributedView) -> str:
    waits = {row.rank: row for row in view.waiting}
    parts = []
    for row in view.times:
        text = (f"rank {row.rank} computes for {(row.computing_us + row.overlap_us) / 1e3:.2f} ms, of which it communicates "
                f"during {row.overlap_us / 1e3:.2f} ms, and communicates alone for {row.communication_us / 1e3:.2f} ms")
        wait = waits.get(row.rank)
        parts.append(text + (f"; in its collectives it waits for {wait.waiting_us / 1e3:.2f} ms" if wait else ""))
    step_ms = statistics.median(row.total_us for row in view.times) / 1e3
    return f"A step of {step_ms:.2f} ms on {len(view.times)} ranks, {_kind(view)}: {'. '.join(parts)}."


def _rows_in_words(rows: list[_Row], name: str, kind: str) -> str:
    parts = [f"rank {row.rank} computes for {length(row.computing):.2f} ms and waits in collectives for "
             f"{length(row.waiting):.2f} ms" for row in rows]
    return f"Step {name} of {len(rows)} ranks on one time scale, {kind}: {'; '.join(parts)}."
