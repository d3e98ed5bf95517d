"""Constants of matrix products (:mod:`gapless.vgpu.hardware.products`), fitted to measured float32 products.

NeuSight's ``b m n k`` are a product of b×m×n and b×n×k: its ``n`` is the depth (``neusight/Dataset/collect.py``), and
its ``linear`` has n inputs and k outputs.

A measured time holds, besides the kernel's, a gap of the measuring host: its events surround the launch. One
number for each device, added; it goes to ``hosts``, beside the cards, and no prediction has it.

Least squares of log(predicted ÷ measured), large deviations counted linearly: on T4 and L4 the same product
takes up to twice as long, depending on what ran before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from ...vgpu.hardware import products
from ...vgpu.hardware.specs import CARDS, Card

SAMPLE = 500  # rows of each card and operator
LONG_S = 3e-4  # most of the sample takes at least this long: the host's gap weighs little
START = {  # where the search starts, the shared ones
    "tile_start_flops": 1e4, "tile_write_flops": 10.0, "tail": 0.8, "reread": 1.0, "memory_share": 0.7, "overlap": 3.0,
    "split_s": 5e-6, "burst": 0.25, "tile_256x64": 1.0, "tile_128x64": 0.95, "tile_64x64": 0.9, "tile_128x32": 0.8,
    "tile_64x32": 0.5, "tile_32x32": 0.4,
}
FIXED = {  # by definition or by assumption
    "tile_128x128": 1.0, "power_average_s": 0.02, "fed_share_64": 0.95, "fed_share_128": 0.80,
}


@dataclass
class Rows:
    """Products of one card and operator, as arrays: what :func:`products.start_and_busy_s` takes for a product."""

    card: Card
    batched: bool
    matrices: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    depth: np.ndarray
    measured_s: np.ndarray
    element_bytes: int = 4

    def predicted_s(self, known: dict) -> np.ndarray:
        """Seconds of the kernels alone."""
        start, busy = products.start_and_busy_s(self, self.card, "float32", known, self.batched, np.minimum, np.maximum)
        return start + busy


def table(rows) -> list[Rows]:
    """The measured products among ``rows`` (:class:`gapless.fidelity.measured.Operator`), by card and operator."""
    groups: dict = {}
    for row in rows:
        if getattr(row, "op", "") in ("bmm", "linear"):
            groups.setdefault((row.card, row.op), []).append((*row.sizes, row.ms / 1e3))
    found = []
    for (card, op), values in sorted(groups.items()):
        matrices, height, depth, columns, measured = np.array(values, dtype=float).T
        if op == "linear":
            matrices, height = np.ones_like(matrices), matrices * height
        found.append(Rows(CARDS[card], op == "bmm", matrices, height, columns, depth, measured))
    return found


def sampled(group: Rows, count: int = SAMPLE) -> Rows:
    """``count`` rows that take long and a quarter as many short ones, the same at every call."""
    order = np.random.default_rng(0).permutation(len(group.measured_s))
    long = group.measured_s[order] > LONG_S
    chosen = np.concatenate([order[long][:count], order[~long][: count // 4]])
    parts = (getattr(group, name)[chosen] for name in ("matrices", "rows", "columns", "depth", "measured_s"))
    return Rows(group.card, group.batched, *parts)


def fit(rows, leave_out: str | None = None) -> dict:
    """Shared constants and each card's ``rate_share``, without the rows of the card ``leave_out``."""
    groups = [sampled(group) for group in table(rows) if group.card.key != leave_out]
    cards = sorted({group.card.key for group in groups})
    shared_count = len(START)

    def named(values):
        values = np.exp(values).tolist()
        shares, gaps = values[shared_count: shared_count + len(cards)], values[shared_count + len(cards):]
        return {**FIXED, **dict(zip(START, values))}, dict(zip(cards, shares)), dict(zip(cards, gaps))

    def deviations(values):
        shared, shares, gaps = named(values)
        return np.concatenate([np.log((group.predicted_s({**shared, "rate_share": shares[group.card.key]})
                                       + gaps[group.card.key]) / group.measured_s) for group in groups])

    start = np.log([*START.values(), *[0.6] * len(cards), *[3e-5] * len(cards)])
    found = least_squares(deviations, start, loss="soft_l1", f_scale=0.05, max_nfev=60, x_scale=0.1)
    shared, shares, gaps = named(found.x)
    shared.update(law(shares))
    return {
        "shared": {name: float(f"{value:.4g}") for name, value in shared.items()},
        "cards": {key: {"rate_share": float(f"{share:.4g}")} for key, share in shares.items()},
        "hosts": {key: {"gap_s": float(f"{gap:.3g}")} for key, gap in gaps.items()},
    }


def law(shares: dict) -> dict:
    """The constants of :func:`products.sustained_share` that come nearest to the cards' own shares."""
    names = ("fed_share_64", "fed_share_128", "joules_per_flop_nm")

    def deviations(values):
        known = {**dict(zip(names, np.exp(values))), "idle_w_per_sm": 0.5}
        near = [np.log(products.sustained_share(CARDS[key], known) / share) for key, share in shares.items()]
        return [*near, *(0.1 * (np.array(values) - start))]  # what no card tells stays where it was

    start = np.log([0.95, 0.8, 1.3e-12])
    found = np.exp(least_squares(deviations, start, loss="soft_l1", f_scale=0.05).x)
    return {**dict(zip(names, found.tolist())), "idle_w_per_sm": 0.5}
