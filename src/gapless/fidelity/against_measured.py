"""The virtual GPU's predictions beside times that others measured: errors by card and kind, and a picture."""

from __future__ import annotations

import itertools
import math
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ..vgpu.hardware.cards.cardfile import find_card
from ..vgpu.hardware.times import uncertainty
from . import predict, transformer_steps
from .measured import AllReduce, Network, Operator, Step
from .predict import Predicted

LONG_MS = 0.1  # what takes longer is hardly the measuring host's gap any more
_NAMES = {"matmul": "matrix products", "convolution": "convolutions", "reduction": "softmax, layer norm",
          "normalization": "softmax, layer norm", "pointwise": "elementwise"}


@dataclass(frozen=True, slots=True)
class Point:
    """One measured time and its prediction, both in ms. ``predicted_ms`` is None where there is no prediction.
    ``uncertainty``: the share of it that 80 % of the measured times are within."""

    card: str
    kind: str
    measured_ms: float
    predicted_ms: float | None
    uncertainty: float = 0.0

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted_ms / self.measured_ms - 1

    @property
    def is_within(self) -> bool:
        """Whether the measured time is as near to the predicted one as its uncertainty says."""
        return abs(self.measured_ms / self.predicted_ms - 1) <= self.uncertainty


def kind_of(row: Operator | AllReduce | Step | Network) -> str:
    """What a row is counted with."""
    if isinstance(row, Step):
        return "transformer steps" + (", compiled" if row.compiled else "")
    if isinstance(row, AllReduce):
        machines = f" on {row.gpus // row.on_each} machines" if row.gpus > row.on_each else ""
        return f"AllReduce, {row.machine}, {row.gpus}{machines}"
    if isinstance(row, Network):
        return f"networks, {row.mode}, {row.format}" + (", compiled" if row.compiled else "")
    return _NAMES[row.kind] + ("" if row.dtype == "float32" else f", {row.dtype}")


def points(rows: Iterable[Operator | AllReduce | Step | Network]) -> Iterator[Point]:
    """A point for each row, in their order, with progress on standard error. Raises ImportError without what the whole
    steps need."""
    rows = list(rows)
    done, next_note = 0, time.monotonic() + 5
    for kind, group in itertools.groupby(rows, type):
        group = list(group)
        for row, predicted in zip(group, _PREDICTED[kind](group)):
            yield Point(row.card, kind_of(row), row.ms, *(predicted or (None,)))
            done += 1
            if time.monotonic() > next_note:
                print(f"{done} of {len(rows)} rows", file=sys.stderr, flush=True)
                next_note = time.monotonic() + 5


def _operators(rows: list[Operator]) -> Iterator[Predicted]:
    for row, ms in zip(rows, predict.operator_ms(rows)):
        yield Predicted(ms, uncertainty.of_kernel(find_card(row.card), row.kind, row.dtype))


def _all_reduces(rows: list[AllReduce]) -> Iterator[Predicted | None]:
    for row, ms in zip(rows, predict.all_reduce_ms(rows)):
        yield None if ms is None else Predicted(ms, uncertainty.of_kernel(find_card(row.card), "collective"))


def _networks(rows: list[Network]) -> Iterator[Predicted | None]:
    from . import networks

    return networks.predicted(rows)


_PREDICTED: dict[type, Callable[[list], Iterable[Predicted | None]]] = {
    Operator: _operators, AllReduce: _all_reduces, Step: transformer_steps.predicted, Network: _networks}


# -- the comparison -------------------------------------------------------------------------------------


def summary(found: Iterable[Point]) -> list[dict]:
    """By card and kind, in plain JSON types: how many rows, how many without a prediction, mean |error|, mean error,
    mean |error| of those longer than ``LONG_MS``, the mean uncertainty, and the share of rows within it."""
    groups: dict[tuple[str, str], list[Point]] = defaultdict(list)
    for point in found:
        groups[point.kind, point.card].append(point)
    lines = []
    for (kind, card), all_points in sorted(groups.items()):
        predicted = [point for point in all_points if point.predicted_ms is not None]
        long = [abs(point.error) for point in predicted if point.measured_ms > LONG_MS]
        lines.append({
            "kind": kind, "card": card, "rows": len(all_points), "left_out": len(all_points) - len(predicted),
            "mean_abs_error": statistics.fmean(abs(point.error) for point in predicted) if predicted else None,
            "mean_error": statistics.fmean(point.error for point in predicted) if predicted else None,
            "mean_abs_error_long": statistics.fmean(long) if long else None,
            "uncertainty": statistics.fmean(point.uncertainty for point in predicted) if predicted else None,
            "within": statistics.fmean(point.is_within for point in predicted) if predicted else None})
    return lines


def table(lines: list[dict]) -> str:
    """What :func:`summary` gives, as a table in Markdown: kinds by cards; in a cell mean |error|, mean error,
    how many rows, and the share of them within which uncertainty."""
    cards = list(dict.fromkeys(line["card"] for line in lines))
    found = {(line["kind"], line["card"]): line for line in lines}
    rows = [["mean error, rows", *cards], ["---"] * (len(cards) + 1)]
    for kind in dict.fromkeys(line["kind"] for line in lines):
        rows.append([kind, *(_cell(found.get((kind, card))) for card in cards)])
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows)


def _cell(line: dict | None) -> str:
    if line is None:
        return "–"
    if line["mean_abs_error"] is None:
        return f"none of {line['rows']}"
    return (f"{line['mean_abs_error']:.1%} ({line['mean_error']:+.0%}), {line['rows'] - line['left_out']}, "
            f"{line['within']:.0%} in ± {line['uncertainty']:.0%}")


MARKERS = {"elementwise": ".", "softmax, layer norm": "x", "matrix products": "s", "convolutions": "^",
           "transformer steps": "D"}
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#8a6d00", "#b0508a", "#4b7fb5")
PER_KIND = 250  # points of a kind in a panel: more would hide each other


def picture(found: Iterable[Point]):
    """Predicted over measured time, both on logarithmic axes, a panel a card, a marker a kind: a matplotlib Figure.

    Of many points an even selection is drawn. Raises ImportError without matplotlib.
    """
    from matplotlib.figure import Figure

    groups: dict[str, dict[str, list[Point]]] = defaultdict(lambda: defaultdict(list))
    for point in found:
        if point.predicted_ms is not None:
            kind = "networks" if point.kind.startswith("networks") else point.kind
            groups[point.card][kind].append(point)
    across = min(4, len(groups))
    down = math.ceil(len(groups) / across)
    figure = Figure(figsize=(3.1 * across, 3.1 * down + 0.5), layout="constrained")
    kinds = list(dict.fromkeys(kind for group in groups.values() for kind in group))
    handles = {}
    for number, (card, group) in enumerate(sorted(groups.items()), 1):
        axes = figure.add_subplot(down, across, number)
        ends = [math.inf, 0.0]
        for kind, drawn in group.items():
            drawn = drawn[::max(1, len(drawn) // PER_KIND)]
            handles[kind], = axes.plot([point.measured_ms for point in drawn], [point.predicted_ms for point in drawn],
                                       MARKERS.get(kind, "+"), markersize=3, alpha=0.5, linestyle="none",
                                       color=COLOURS[kinds.index(kind) % len(COLOURS)])
            values = [value for point in drawn for value in (point.measured_ms, point.predicted_ms)]
            ends = [min(ends[0], *values), max(ends[1], *values)]
        axes.plot(ends, ends, color="#000000", linewidth=0.8)
        axes.set(xscale="log", yscale="log", title=card, aspect="equal")
        axes.grid(alpha=0.2)
    figure.supxlabel("measured, ms")
    figure.supylabel("predicted, ms")
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=min(5, len(handles)), frameon=False)
    return figure


def alt(lines: list[dict]) -> str:
    """The picture's alternative text."""
    cards = sorted({line["card"] for line in lines})
    worst = max((line for line in lines if line["mean_abs_error"] is not None), key=lambda line: line["mean_abs_error"])
    return (f"Predicted over measured time on logarithmic axes, a panel for each of {', '.join(cards)}. Points lie along "
            f"the diagonal; farthest from it: {worst['kind']} on {worst['card']}, {worst['mean_abs_error']:.0%} on average.")
