"""How far predictions are from measured times: for each kind of kernel and card the share of the predicted time that 80 % of
the measured ones are within (:mod:`gapless.vgpu.hardware.times.uncertainty`).

To be fitted last: it takes the other models as they are. An even selection of each kind's rows is predicted.
"""

from __future__ import annotations

import statistics
from collections import defaultdict

import numpy as np

from ...vgpu.hardware.times.uncertainty import SHARE
from ..against_measured import points
from ..measured import AllReduce, Network, Operator, Step
from .products import rounded

ROWS, MODEL = (Operator, AllReduce, Step, Network), "uncertainty"
SOURCE = "all times in records/measured, beside their predictions"

MOST = {Operator: 1000, AllReduce: 1000, Step: 1000, Network: 150}  # rows of one kind and card that are predicted
FEW = 40  # rows: a card that has fewer of a kind gets what the others have
TWICE = 2  # of what measured cards have, for kernels of one that was not


def name_of(row: Operator | AllReduce | Step | Network) -> str:
    """What a row tells the uncertainty of."""
    if isinstance(row, AllReduce):
        return "collective"
    if not isinstance(row, Operator):
        return "step"
    # In half precision tensor cores compute: a model of its own. Other kinds move bytes, whatever is in them.
    own_model = row.kind in ("matmul", "convolution") and row.dtype == "float32"
    return f"{row.kind}:{row.dtype}" if own_model else row.kind


def fit(rows, leave_out: str | None = None) -> dict:
    """Each card's own, and what other cards get, without the rows of the card ``leave_out``."""
    groups = defaultdict(list)
    for row in rows:
        if row.card != leave_out:
            groups[name_of(row), row.card].append(row)
    chosen = [row for group in groups.values() for row in group[::-(-len(group) // MOST[type(group[0])])]]
    missed = defaultdict(list)
    for row, point in zip(chosen, points(chosen)):
        if point.predicted_ms is not None:
            missed[name_of(row), row.card].append(abs(row.ms / point.predicted_ms - 1))
    found = {key: float(np.quantile(each, SHARE)) for key, each in missed.items()}
    cards, by_name = defaultdict(dict), defaultdict(list)
    for (name, card), value in found.items():
        by_name[name].append(value)
        if len(missed[name, card]) >= FEW:
            cards[card][name] = value
    # Whole steps tell what a step misses besides its kernels, which count by themselves.
    shared = {name: statistics.fmean(values) * (1 if name == "step" else TWICE) for name, values in by_name.items()}
    return {"shared": rounded(shared), "cards": {card: rounded(own) for card, own in sorted(cards.items())}}
