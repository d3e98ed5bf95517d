"""Constants of matrix products (:mod:`gapless.vgpu.hardware.times.products`), fitted to measured float32 products.

NeuSight's ``b m n k`` are a product of b×m×n and b×n×k: its ``n`` is the depth (``neusight/Dataset/collect.py``), and
its ``linear`` has n inputs and k outputs.

A measured time holds, besides the kernel's, a gap of the measuring host: its events surround the launch. One
number for each device and operator, added; it goes to ``hosts``, beside the cards, and no prediction has it.

Least squares of log(predicted ÷ measured), large deviations counted linearly: on T4 and L4 the same product
takes up to twice as long, depending on what ran before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.optimize import least_squares

from ...vgpu.hardware.cards.specs import CARDS, Card
from ...vgpu.hardware.times import products
from ..measured import Operator

ROWS, MODEL = Operator, "products"
SOURCE = "bmm and linear in float32 without TF32 as NeuSight measured them (records/measured/operators.csv.gz, MIT licence)"

SAMPLE = 500  # rows of each card, operator and part of the data
LONG_S = 3e-4  # most of the sample takes at least this long: the host's gap weighs little
SHARED = {  # where the search starts
    "tn_loss": 0.03, "lone_flops": 4e3, "tail": 0.8, "reread": 1.0,
    "memory_share": 0.9, "odd_bytes": 0.5, "overlap": 2.0, "split_s": 5e-6, "burst": 0.25,
    "exposed_7": 0.1, "exposed_8": 0.3, "exposed_9": 0.5,
}
HELD = 0.1  # weight of a constant's start, which keeps what the rows do not tell in its place
OWN = {"rate_share": 0.7, "tile_loss": 0.08}
# By assumption: no measurement here tells the start from the host's gap; the idle power is
# what lets one law hold both boards of 70 W.
FIXED = {
    "start_s": 2e-6, "power_average_s": 0.02, "fed_share_64": 0.95, "fed_share_128": 0.75, "idle_w_per_sm": 0.65,
}


@dataclass
class Rows:
    """Products of one card, operator and part, as arrays: what ``products.start_and_busy_s`` takes for a product."""

    card: Card
    batched: bool
    matrices: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    depth: np.ndarray
    measured_s: np.ndarray
    element_bytes: int = 4
    dtype: str = "float32"

    @property
    def layout(self) -> str:
        """That of the kernels' names."""
        return "nn" if self.batched else "tn"

    @property
    def host(self) -> tuple[str, bool]:
        """What the gap depends on: a linear layer's call takes the host longer."""
        return self.card.key, self.batched

    def only(self, places: np.ndarray) -> Rows:
        """Those at ``places``."""
        names = ("matrices", "rows", "columns", "depth", "measured_s")
        return replace(self, **{name: getattr(self, name)[places] for name in names})

    def predicted_s(self, known: dict) -> np.ndarray:
        """Seconds of the kernels alone."""
        start, busy = products.start_and_busy_s(self, self.card, known, self.batched, np.minimum, np.maximum, self.dtype)
        return start + busy


def table(rows, dtype: str = "float32") -> list[Rows]:
    """The measured products of ``dtype`` among ``rows`` (:class:`gapless.fidelity.measured.Operator`), by card, operator and
    part."""
    groups: dict = {}
    for row in rows:
        if row.op in ("bmm", "linear") and row.dtype == dtype:
            groups.setdefault((row.card, row.op, row.part), []).append((*row.sizes, row.ms / 1e3))
    found = []
    for (card, op, _), values in sorted(groups.items()):
        matrices, height, depth, columns, measured = np.array(values, dtype=float).T
        if op == "linear":
            matrices, height = np.ones_like(matrices), matrices * height
        found.append(Rows(CARDS[card], op == "bmm", matrices, height, columns, depth, measured,
                          getattr(torch, dtype).itemsize, dtype))
    return found


def sampled(group: Rows, count: int = SAMPLE) -> Rows:
    """``count`` rows that take long and a quarter as many short ones, the same at every call."""
    order = np.random.default_rng(0).permutation(len(group.measured_s))
    long = group.measured_s[order] > LONG_S
    chosen = np.concatenate([order[long][:count], order[~long][: count // 4]])
    return group.only(chosen)


def fit(rows, leave_out: str | None = None) -> dict:
    """Shared constants and each card's own, without the rows of the card ``leave_out``; ``hosts``: the gaps (s)."""
    groups = [sampled(group) for group in table(rows) if group.card.key != leave_out]
    cards = sorted({group.card.key for group in groups})
    hosts = sorted({group.host for group in groups})
    start = [*SHARED.values(), *(OWN[name] for name in OWN for _ in cards), *(3e-5 for _ in hosts)]

    def named(values):
        left = iter(np.exp(values).tolist())
        shared = {**FIXED, **{name: next(left) for name in SHARED}}
        own = {name: {key: next(left) for key in cards} for name in OWN}
        return shared, {key: {name: own[name][key] for name in OWN} for key in cards}, {host: next(left) for host in hosts}

    def deviations(values):
        shared, own, gaps = named(values)
        errors = [np.log((group.predicted_s({**shared, **own[group.card.key]}) + gaps[group.host]) / group.measured_s)
                  for group in groups]
        return np.concatenate([*errors, HELD * (values - np.log(start))])

    # An exponent in the search may leave what a float holds; the step is then taken back.
    with np.errstate(over="ignore", invalid="ignore"):
        found = least_squares(deviations, np.log(start), loss="soft_l1", f_scale=0.05, max_nfev=60, x_scale=0.1)
    shared, own, gaps = named(found.x)
    shared.update(law({key: values["rate_share"] for key, values in own.items()}))
    shared["tile_loss"] = float(np.median([values["tile_loss"] for values in own.values()]))  # for cards not measured
    return {"shared": rounded(shared), "cards": {key: rounded(values) for key, values in own.items()},
            "hosts": rounded({f"{key} {'bmm' if batched else 'linear'}": gap for (key, batched), gap in gaps.items()})}


def law(shares: dict) -> dict:
    """The constants of ``products.sustained_share`` that come nearest to the cards' own shares."""
    names = ("fed_share_64", "fed_share_128", "joules_per_flop_nm")
    start = np.log([FIXED["fed_share_64"], FIXED["fed_share_128"], 1.3e-12])

    def deviations(values):
        known = {**FIXED, **dict(zip(names, np.exp(values)))}
        near = [np.log(products.sustained_share(CARDS[key], known) / share) for key, share in shares.items()]
        return [*near, *(HELD * (values - start))]

    return dict(zip(names, np.exp(least_squares(deviations, start, loss="soft_l1", f_scale=0.05).x).tolist()))


def rounded(values: dict) -> dict:
    """The constants as they are written."""
    return {name: float(f"{value:.4g}") for name, value in values.items()}
