"""What measured AllReduces take over NCCL's own model (:mod:`gapless.vgpu.hardware.times.interconnect`), inside one machine.

A constant, since the ranks' kernels do not begin together (less on the newer hosts beside Hopper), and a factor for each
kind of links. Least squares of log(predicted ÷ measured), large deviations counted linearly. No Volta was measured: it gets
Ampere's constants.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import least_squares

from ...vgpu.hardware.cards.specs import CARDS
from ...vgpu.hardware.times import interconnect
from ..measured import AllReduce
from .products import rounded

ROWS, MODEL = AllReduce, "collectives"
SOURCE = "AllReduces as Vidur measured them (records/measured/vidur_allreduce.csv.gz, MIT licence)"

START = {"apart_8_us": 15.0, "apart_9_us": 10.0, "switch_8": 1.3, "switch_9": 1.1, "switch_9_nvls": 0.9, "bridges": 1.2,
         "pcie": 1.0}


def fit(rows, leave_out: str | None = None) -> dict:
    """The shared constants, without the rows of the card ``leave_out``; no card has its own."""
    rows = [row for row in rows if row.gpus == row.on_each and row.card != leave_out]
    unfitted = [interconnect.unfitted(row.nbytes, [0] * row.gpus, CARDS[row.card], interconnect.MACHINES[row.machine])
                for row in rows]
    plain, *named = zip(*unfitted)
    names = list(START)
    apart, factor = ([names.index(name) for name in each] for each in named)
    measured_us = np.array([row.ms * 1e3 for row in rows])
    _, place, count = np.unique([f"{row.machine} {row.gpus}" for row in rows], return_inverse=True, return_counts=True)
    weight = count[place] ** -0.5 * np.sqrt(count.mean())  # each machine and number of cards counts the same

    def deviations(values):
        return weight * np.log((np.exp(values[apart]) + np.array(plain) * np.exp(values[factor])) / measured_us)

    start = np.log([*START.values()])
    found = least_squares(lambda values: np.concatenate([deviations(values), 0.1 * (values - start)]), start,
                          loss="soft_l1", f_scale=0.2)
    shared = dict(zip(names, np.exp(found.x).tolist()))
    older = {"switch_7": shared["switch_8"], "apart_7_us": shared["apart_8_us"]}
    return {"shared": rounded({**shared, **older}), "cards": {}}
