"""Constants of matrix products on tensor cores (:mod:`gapless.vgpu.hardware.times.products`), fitted to measured linear
layers in float16.

The times are the kernels' alone, from traces: no host's gap is in them. Least squares of log(predicted ÷ measured), large
deviations counted linearly. What is left is mostly which of its kernels cuBLAS takes, which no row says.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import least_squares

from ..measured import Operator
from .products import HELD, rounded, table

ROWS, MODEL = Operator, "half_products"
SOURCE = "linear layers in float16 as Vidur measured them (records/measured/vidur_linear.csv.gz, MIT licence)"

SAMPLE = 400  # rows of each card and of each of its four layers
SHARED = {  # where the search starts
    "lone_flops": 4e4, "tail": 0.5, "reread": 1.0, "overlap": 2.5, "split_s": 2e-6, "exposed_8": 0.3, "exposed_9": 0.3,
}
OWN = {"rate_share": 0.75, "memory_share": 0.85, "tile_loss": 0.1, "start_s": 4e-6}
# By assumption. Tensor cores take either order of an operand; rows of the layers begin at multiples of 32 bytes.
FIXED = {"tn_loss": 0.0, "odd_bytes": 0.0}
ALIKE = {"h200": "h100"}  # the same chip, clock and power


def fit(rows, leave_out: str | None = None) -> dict:
    """Shared constants and each card's own, without the rows of the card ``leave_out``. A card that was not measured gets
    the median of those measured, and no ``rate_share``
    (:func:`~gapless.vgpu.hardware.times.tensor_cores.product_constants`)."""
    groups = [group.only(np.random.default_rng(0).permutation(len(group.rows))[:SAMPLE])  # the same at every call
              for group in table(rows, "float16") if group.card.key != leave_out]
    cards = sorted({group.card.key for group in groups})
    start = np.log([*SHARED.values(), *(OWN[name] for name in OWN for _ in cards)])

    def named(values):
        left = iter(np.exp(values).tolist())
        shared = {**FIXED, **{name: next(left) for name in SHARED}}
        own = {name: {key: next(left) for key in cards} for name in OWN}
        return shared, {key: {name: own[name][key] for name in OWN} for key in cards}

    def deviations(values):
        shared, own = named(values)
        errors = [np.log(group.predicted_s({**shared, **own[group.card.key]}) / group.measured_s) for group in groups]
        return np.concatenate([*errors, HELD * (values - start)])

    with np.errstate(over="ignore", invalid="ignore"):
        found = least_squares(deviations, start, loss="soft_l1", f_scale=0.05, max_nfev=60, x_scale=0.1)
    shared, own = named(found.x)
    shared["exposed_7"] = shared["exposed_8"]  # no older card was measured
    for name in OWN:
        if name != "rate_share":
            shared[name] = float(np.median([values[name] for values in own.values()]))
    own |= {key: own[like] for key, like in ALIKE.items() if like in own}
    return {"shared": rounded(shared), "cards": {key: rounded(values) for key, values in own.items()}}
