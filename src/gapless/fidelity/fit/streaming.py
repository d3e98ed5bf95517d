"""Constants of the kernels that memory holds back (:mod:`...vgpu.hardware.times.streaming`), fitted to measured operators.

The measurements hold the host's part (:mod:`gapless.fidelity.hosts`). Kernels over rows are fitted to those rows of the
data only that were taken at one clock: on the T4 and the A100 the time for each row of a layer norm falls
by a third and by half where b passes 4096 and 8192, whatever the length, and the data were taken in groups of b. So the
clock had not risen yet; elementwise kernels, which only memory holds back, show nothing of it.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict

import numpy as np
from scipy.optimize import least_squares

from ...vgpu.hardware.cards.specs import CARDS, START_NS
from ...vgpu.hardware.times import streaming
from .. import hosts
from ..calibrate import least_relative
from ..measured import FOLDER, Operator

MODEL, ROWS = "streaming", Operator
SOURCE = "operators in float32 on five cards (NeuSight, ASPLOS 2025), records/measured/operators.csv.gz"

ARRAYS = {**dict.fromkeys(("add", "sub", "mul", "div", "pow"), 3),
          **dict.fromkeys(("addu", "subu", "mulu", "divu", "relu", "tanh", "gelu"), 2)}
BY_ROWS = {"softmax": "softmax", "ln": "norm"}
STEADY = 8192  # b from which a card's clock had risen
UNSTEADY = ("a100_pcie",)  # where it never had in the part "train": a layer norm is a third faster in "test"
SAMPLE = 250  # rows of a card and an operator in the part "train"
OVERLAP, SHARPNESS, L2_SHARPNESS = 4.0, 5.0, 12.0  # how the larger of two times wins; how sudden caches overflow
L2_SHARES = np.geomspace(0.4, 1.6, 25)

_START_S = START_NS / 1e9
# Constants of rows → where the search for them begins.
_SHARED = {"warp_cycles": 1000.0, "warp_cycles_each": 50.0, "block_cycles": 6000.0, "block_cycles_each": 2000.0,
           "norm_cycles": 400.0, "norm_cycles_each": 150.0, "tail": 0.2, "warp_share": 0.95, "unaligned_share": 0.9}
_OWN = {"reduction": 0.8, "normalization": 0.8, "block_window": 0.6, "norm_window": 0.5}


def fit(rows: list[Operator], leave_out: str | None = None) -> dict:
    """``{"shared": …, "cards": …}`` of the measured operators ``rows``, without those of the card ``leave_out``."""
    rows = [row for row in rows if row.card != leave_out and (row.op in ARRAYS or row.op in BY_ROWS or row.op == "powu")]
    by_card = defaultdict(list)
    for row in rows:
        by_card[row.card].append(row)
    cards = {card: {"pointwise": round(_share(card, own), 4)} for card, own in by_card.items()
             if any(row.op in ARRAYS for row in own)}
    gaps = hosts.fit(rows)
    by_card = {card: by_card[card] for card in cards}
    shared = {"overlap": OVERLAP, "window_sharpness": SHARPNESS, "l2_sharpness": L2_SHARPNESS,
              "pow_flops": round(min(_flops(card, own) for card, own in by_card.items()), 1)}
    for card, own in by_card.items():
        share = _l2_share(card, own, cards[card]["pointwise"], gaps)
        if share is not None:
            cards[card]["l2_share"] = share
    for name, hbm in (("hbm", True), ("gddr", False)):
        held = {card: own["l2_share"] for card, own in cards.items() if "l2_share" in own}
        shared[f"l2_share_{name}"] = _middle([share for card, share in held.items()
                                              if streaming.is_hbm(CARDS[card]) == hbm] or [*held.values()])
    _fit_rows(by_card, cards, shared, gaps)
    # A card that nobody measured: its kind of memory tells its share, and the other kinds of kernels follow.
    for name, hbm in (("hbm", True), ("gddr", False)):
        found = [own["pointwise"] for card, own in cards.items() if streaming.is_hbm(CARDS[card]) == hbm]
        shared[name] = _middle(found or [own["pointwise"] for own in cards.values()])
    for kind in ("reduction", "normalization"):
        shared[f"{kind}_ratio"] = _middle([own[kind] / own["pointwise"] for own in cards.values()])
    for name in ("block_window", "norm_window"):
        shared[name] = _middle([own[name] for own in cards.values()])
    return {"shared": shared, "cards": cards}


def beside(rows: list[Operator]) -> dict:
    """The measuring hosts, by the file that keeps them."""
    return {FOLDER / hosts.FILE: {"source": SOURCE, "command": "gapless fit streaming", "devices": hosts.fit(rows)}}


def _middle(values: list[float]) -> float:
    return round(statistics.geometric_mean(values), 4)


def _bytes(row: Operator, arrays: int = 2) -> int:
    return 4 * arrays * math.prod(row.sizes)


def _share(card: str, rows: list[Operator]) -> float:
    """Share of the bandwidth, from elementwise kernels on more than the L2 cache holds: slope over a gap, by operator."""
    found = []
    for op, arrays in ARRAYS.items():
        large = [(1.0, _bytes(row, arrays), row.ms / 1e3) for row in rows
                 if row.op == op and _bytes(row, arrays) > 4 * CARDS[card].l2_bytes]
        if len(large) > 4:
            found.append(1 / (least_relative(large)[1] * CARDS[card].bandwidth_bytes_per_s))
    return statistics.mean(found)


def _flops(card: str, rows: list[Operator]) -> float:
    """The most FLOPs that ``pow`` can have with a number, from its rate on the card."""
    large = [(1.0, math.prod(row.sizes), row.ms / 1e3) for row in rows
             if row.op == "powu" and _bytes(row) > 4 * CARDS[card].l2_bytes]
    return CARDS[card].peak_flops["float32"] * least_relative(large)[1] if len(large) > 4 else math.inf


def _l2_share(card: str, rows: list[Operator], share: float, gaps: dict) -> float | None:
    """How much of the L2 cache holds data, from elementwise kernels and rows of a warp around its size."""
    sheet, points = CARDS[card], []
    for row in rows:
        arrays = ARRAYS.get(row.op) or (2 if row.op == "softmax" and row.sizes[1] <= streaming.WARP_ROW else 0)
        moved = _bytes(row, arrays)
        plain_s = _START_S + moved / (sheet.bandwidth_bytes_per_s * share)
        if 0.4 <= moved / sheet.l2_bytes <= 1.6 and plain_s > 1.3 * hosts.hidden_s(gaps, row.device, row.op):
            points.append((row, moved, plain_s - _START_S))
    if not any(moved <= sheet.l2_bytes for _, moved, _ in points):
        return None  # nothing that fits

    def error(held: float) -> float:
        total = 0.0
        for row, moved, memory_s in points:
            miss = streaming.missed(moved, held * sheet.l2_bytes, L2_SHARPNESS)
            time_s = _START_S + memory_s * (1 / streaming.L2_RATE + (1 - 1 / streaming.L2_RATE) * miss)
            total += abs(hosts.measured_s(gaps, row.device, row.op, time_s) * 1e3 / row.ms - 1)
        return total

    return round(float(min(L2_SHARES, key=error)), 3)


def _fit_rows(by_card: dict, cards: dict, shared: dict, gaps: dict) -> None:
    """Softmax and layer norm of all cards together: adds to ``cards`` and ``shared``."""
    points = []
    for card, own in by_card.items():
        for op in BY_ROWS:
            test = [row for row in own if row.op == op and row.part != "train"]
            train = [row for row in own if row.op == op and row.part == "train" and row.sizes[0] >= STEADY
                     and card not in UNSTEADY and row.ms / 1e3 > 1.5 * hosts.floor_s(gaps, row.device, op)]
            points += 2 * test + train[::max(1, len(train) // SAMPLE)]
    names = [*_SHARED, *((card, name) for card in cards for name in _OWN)]
    problems = [streaming.Rows(BY_ROWS[row.op], row.sizes[0], row.sizes[1]) for row in points]

    def errors(logs: np.ndarray) -> np.ndarray:
        values = dict(zip(names, np.exp(logs)))
        tables = {card: {**shared, **values, **own, **{name: values[card, name] for name in _OWN}}
                  for card, own in cards.items()}
        found = np.empty(len(points))
        for number, (row, problem) in enumerate(zip(points, problems)):
            table = tables[row.card]
            time_s = _START_S + streaming.rows_busy_s(problem, CARDS[row.card], table, table)
            found[number] = hosts.measured_s(gaps, row.device, row.op, time_s) * 1e3 / row.ms
        return np.log(found)

    start = [*_SHARED.values(), *(value for _ in cards for value in _OWN.values())]
    found = least_squares(errors, np.log(start), loss="soft_l1", f_scale=0.05, max_nfev=25,
                          bounds=(np.log(np.array(start) / 50), np.log(np.array(start) * 4)))
    for name, value in zip(names, np.exp(found.x)):
        if name in _SHARED:
            shared[name] = float(f"{value:.4g}")
        else:
            cards[name[0]][name[1]] = float(f"{value:.4g}")
