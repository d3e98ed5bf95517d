"""The fit of :mod:`gapless.vgpu.hardware.times.convolutions` to measured convolutions, and how far it is off by algorithm.

The time of a row is its kernels' and a gap of the measuring host. In NeuSight's data that gap grows with the number of
convolutions that the process had measured before, evenly, from some 0.03 ms at a file's first row of a card to 0.3–0.4 ms at
its last, on every card alike, while the sizes are in random order; no other operator shows it. So it is the measuring
process's, and a line over a card's rows in the file's order, beside the fit, takes it out. Cards know nothing of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ...vgpu.hardware.cards.specs import CARDS
from ...vgpu.hardware.times import convolutions
from .. import hosts
from ..measured import Operator

MODEL = "convolutions"
SOURCE = "NeuSight (ASPLOS 2025), records/measured/operators.csv.gz: conv"
ROWS = Operator

UNIT = "gemm_128x64"  # the term that the others are counted against: its constant is 1
RAN = 0.5  # weight of what ran, beside what the model chooses
STEEPNESS = 0.1  # of the loss: a relative error above it counts about in proportion, not squared
START_S = 2e-6  # between kernels of a stream; of one call, it cannot be distinguished from the host's gap
# Where the search begins, if not at 1: what is counted in multiply-adds that take the place of something else.
START = {"latency": 4000.0, "batched_fill": 10.0, "winograd_fill": 10.0}
# Not seen in the data, and assumed: ATen's depthwise kernels make two loads for each multiply-add, and an SM loads a quarter
# as many numbers as it multiplies; the weight gradient's threads also add up among themselves.
# A card held by its power is held less in convolutions, which are short and wait for memory meanwhile, than in large
# products: on the T4 by about the square root.
ASSUMED = {"power": 0.5, "depthwise": 8.0, "depthwise_weight": 16.0, "depthwise_traffic": 1.25,
           "batched_128x128": 1.0}  # where no row of the A100 is used


def problem(row: Operator) -> convolutions.Convolution:
    """What a row of ``conv`` computed."""
    batch, channels_in, channels_out, window, size, stride, padding = row.sizes
    out = (size + 2 * padding - window) // stride + 1
    return convolutions.Convolution(convolutions.FORWARD, batch, channels_in, channels_out, (size, size), (out, out),
                                    (window, window), (stride, stride), (padding, padding), (1, 1))


def algorithm(kernels: str) -> tuple[str, str]:
    """The model's names for the algorithm and the tile that these CUDA kernels are, by cuDNN's names for them."""
    tile = re.search(r"(?:sgemm|scudnn)_(\d+x\d+)", kernels)
    if "winogradforward" in kernels:
        return "winograd_non_fused", tile[1]
    if "winograd" in kernels:
        return "winograd", "4x8x4" if "tile442" in kernels else "1x8x16"
    if "fft" in kernels:
        return "fft", ""
    # What is named without a tile is chosen for few positions: small ones.
    return "implicit_gemm", tile[1] if tile else "32x32"


def fit(rows: Sequence[Operator], leave_out: str | None = None) -> dict:
    """The constants: ``shared``, each card's own under ``cards``, and under ``hosts``, by card, the measuring host's gap
    (ms) before the first row and by how much it grew until the last of so many ``rows``. ``leave_out``: a card whose
    rows are not used."""
    from scipy.optimize import least_squares

    table = _Table([row for row in rows if row.op == "conv" and row.card != leave_out])
    count = len(table.cards)
    start = np.concatenate([[START.get(name, 1.0) for name in table.terms], np.repeat([1.3, 0.03, 0.3], count)])

    def residuals(x: np.ndarray) -> np.ndarray:
        # Both of what the model chooses and of what ran: else a tile that it never chooses could cost anything.
        return np.concatenate([table.predicted(x, False) / table.ms - 1, RAN * (table.predicted(x, True) / table.ms - 1)])

    start = least_squares(residuals, start, bounds=(0, np.inf), x_scale=start, loss="soft_l1", f_scale=STEEPNESS,
                          max_nfev=100).x
    terms, math, gap, drift = table.parts(start)
    unit = terms[table.terms.index(UNIT)]
    shared = {name: float(value / (unit if name in table.math else 1)) for name, value in zip(table.terms, terms)}
    math = math * unit * [convolutions.sustained_share(CARDS[card]) ** ASSUMED["power"] for card in table.cards]
    own = {convolutions.architecture(CARDS[card]): float(value) for card, value in zip(table.cards, math)}
    shared = {**ASSUMED, **shared, "start_s": START_S, "math": float(np.exp(np.mean(np.log(math)))), **own}
    return {"shared": {name: _rounded(value) for name, value in sorted(shared.items())}, "cards": {},
            "hosts": {card: {"gap_ms": _rounded(first), "drift_ms": _rounded(more), "rows": int((table.card == index).sum())}
                      for index, (card, first, more) in enumerate(zip(table.cards, gap, drift))}}


def predicted_ms(rows: Sequence[Operator], constants: dict) -> np.ndarray:
    """What a pair of CUDA events around each row would show: its kernels, and the host's gap where ``constants`` has it."""
    found = np.empty(len(rows))
    for card in {row.card for row in rows}:
        places = [place for place, row in enumerate(rows) if row.card == card]
        own = {**constants["shared"], **constants["cards"].get(card, {})}
        kernels = [_best(rows[place], own).seconds * 1e3 for place in places]
        measured = np.array([rows[place].ms for place in places])
        found[places] = kernels + host_gap_ms(measured, np.array(kernels), constants["hosts"].get(card))
    return found


def _best(row: Operator, constants: dict) -> convolutions.Algorithm:
    return min(convolutions.algorithms(problem(row), CARDS[row.card], constants), key=lambda one: one.seconds)


def errors(rows: Sequence[Operator], constants: dict) -> list[dict]:
    """By card and by the algorithm that ran: rows, mean |error|, mean error, and how often the model names that algorithm.
    ``constants``: what :func:`fit` gave. A card without a host's gap there gets one from its own rows, by least squares."""
    rows = [row for row in rows if row.op == "conv"]
    error = predicted_ms(rows, constants) / [row.ms for row in rows] - 1
    ran = [algorithm(row.kernels)[0] for row in rows]
    named = np.array([_best(row, {**constants["shared"], **constants["cards"].get(row.card, {})}).name == name
                      for row, name in zip(rows, ran)])
    found = []
    for card in dict.fromkeys(row.card for row in rows):
        for name in ("all", *sorted(set(ran))):
            of = np.array([row.card == card and name in ("all", kind) for row, kind in zip(rows, ran)])
            if of.any():
                found.append({"card": card, "algorithm": name, "rows": int(of.sum()), "named": float(named[of].mean()),
                              "mean_abs_error": float(np.abs(error[of]).mean()), "mean_error": float(error[of].mean())})
    return found


def host_gap_ms(measured: np.ndarray, kernels: np.ndarray, known: dict | None = None) -> np.ndarray:
    """The measuring host's gap before each row of one card, in the file's order: a line from ``gap_ms`` that grows by
    ``drift_ms``; where they are not ``known``, the line that leaves the smallest relative errors (squared)."""
    place = np.linspace(0, 1, len(measured))
    if known is None:
        lines = np.stack([np.ones(len(measured)), place], 1) / measured[:, None]
        gap, drift = np.linalg.lstsq(lines, 1 - kernels / measured, rcond=None)[0]
        return gap + drift * place
    return hosts.drift_ms(known, place)


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


class _Table:
    """Every way of every row as its terms, so that a prediction is a product and a minimum."""

    def __init__(self, rows: Sequence[Operator]):
        self.cards = sorted({row.card for row in rows})
        self.ms = np.array([row.ms for row in rows])
        self.card = np.array([self.cards.index(row.card) for row in rows])
        self.place = np.empty(len(rows))
        for index in range(len(self.cards)):
            self.place[self.card == index] = np.linspace(0, 1, int((self.card == index).sum()))
        found = [list(convolutions.ways(problem(row), CARDS[row.card])) for row in rows]
        self.math = sorted({name for ways in found for way in ways for name, _ in way.math})
        self.memory = sorted({name for ways in found for way in ways for name, _ in way.memory})
        self.terms = self.math + self.memory
        column = {name: index for index, name in enumerate(self.terms)}
        self.seconds = np.zeros((len(rows), max(map(len, found)), len(self.terms)))
        self.kernels = np.zeros(self.seconds.shape[:2])
        self.open = np.zeros(self.kernels.shape, dtype=bool)  # which ways there are
        self.ran = self.open.copy()  # and which are the algorithm that ran
        for index, (row, ways) in enumerate(zip(rows, found)):
            name, tile = algorithm(row.kernels)
            for other, way in enumerate(ways):
                self.kernels[index, other] = way.kernels
                self.open[index, other], self.ran[index, other] = True, way.name == name and tile in ("", way.tile)
                for term, seconds in way.math + way.memory:
                    self.seconds[index, other, column[term]] += seconds * 1e3
        self.ran[~self.ran.any(1)] = True
        self.ran &= self.open

    def parts(self, x: np.ndarray) -> list[np.ndarray]:
        """Of the fit's variables: terms' constants, each card's slowness of arithmetic, gap and drift."""
        return np.split(x, np.cumsum([len(self.terms), *[len(self.cards)] * 2]))

    def predicted(self, x: np.ndarray, ran: bool) -> np.ndarray:
        """Milliseconds of each row, of the algorithm and tile that ran, or of the fastest."""
        terms, math, gap, drift = self.parts(x)
        count = len(self.math)
        times = (self.seconds[..., :count] @ terms[:count]) * math[self.card][:, None]
        times += self.seconds[..., count:] @ terms[count:] + self.kernels * START_S * 1e3
        times[~(self.ran if ran else self.open)] = np.inf
        return times.min(1) + gap[self.card] + drift[self.card] * self.place
