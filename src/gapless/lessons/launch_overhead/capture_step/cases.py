"""Lesson 06: trainings whose step is captured, small ones and middling ones."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ....course.exercise import Trial
from ..stage import UNMEASURED
from .stage import LOSSES, WEIGHTS


def _training(rng: np.random.Generator, name: str, rows: list[int], *, layers: int = 2, width: int = 6, lr: float = 0.03,
              decay: float = 0.7, dropout: float = 0.0, same: bool = False, kind=np.float32, groups: int = 1,
              lengths: list[int] | None = None, **options) -> Case:
    """A batch for each entry of ``rows``. ``same``: all batches are the first; ``groups``: of the optimizer; ``lengths``: of
    the batches' sequences, whose targets have fractions."""
    weights = [(rng.normal(size=(width, width)) * (2 / width) ** 0.5).astype(kind) for _ in range(layers)]
    shapes = [(count, width) for count in rows] if lengths is None else [(*both, width) for both in zip(rows, lengths)]
    x = [rng.normal(size=shape).astype(kind) for shape in shapes]
    y = [rng.integers(0, width, size=shape[0]) if lengths is None else rng.normal(size=shape).astype(kind)
         for shape in shapes]
    if same:
        x, y = x[:1] * len(rows), y[:1] * len(rows)
    loss = "cross_entropy" if lengths is None else "mse_loss"
    return Case(name, {"weights": weights, "x": x, "y": y}, {"lr": lr, "decay": decay, "dropout": dropout, "groups": groups,
                                                             "loss": loss, "norms": False, "another": False} | options)


def capture_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def rows() -> int:
        return int(rng.integers(3, 8))

    many, odd = rows(), rows()
    return [
        # The first of all: later ones find in a cache what this one put there.
        _training(rng, "batches of one size, for a second network", [rows()] * 8, another=True),
        _training(rng, "a smaller last batch", [many + 1] * 7 + [many - 2]),
        _training(rng, "a learning rate that grows", [rows()] * 8, lr=0.005, decay=1.4),
        _training(rng, "two parameter groups, and norms", [rows()] * 8, groups=2, norms=True),
        _training(rng, "smaller batches in between", [odd, odd, odd - 1, odd, odd, odd, odd - 2, odd, odd]),
        _training(rng, "a smaller first batch", [2] + [rows()] * 7),
        _training(rng, "a learning rate of 0 from the second step on", [rows()] * 7, decay=0.0),
        _training(rng, "dropout, and the same batch again and again", [40] * 9, lr=1e-6, dropout=0.5, same=True, width=9),
        _training(rng, "batches of one row", [1] * 8),
        _training(rng, "one batch", [rows()]),
        _training(rng, "three batches", [rows()] * 3),
        _training(rng, "sequences in float64, one of them shorter", [rows()] * 8, kind=np.float64,
                  lengths=[4, 4, 4, 4, 4, 3, 4, 4]),
    ]


def seen(case: Case, answer: dict, notes: list) -> dict:
    """Where numbers are dropped, which is not the same on every device: whether the losses differ."""
    if not case.options["dropout"] or not isinstance(answer, dict):
        return answer
    losses = answer[LOSSES]
    return {LOSSES: "each step drops others" if len({round(loss, 4) for loss in losses}) > len(losses) - 2
            else "steps repeat each other", "layers": len(answer[WEIGHTS])}


def _trial(rng: np.random.Generator, count: int) -> list[Case]:
    rows, width = int(rng.integers(10, 16)), int(rng.integers(10, 16))
    trial = [_training(rng, "a small network, the first batch smaller", [rows - 3] + [rows] * (UNMEASURED + 1), layers=6,
                       width=width, lr=0.003) for _ in range(count)]
    for case in trial:  # the first batches warm up
        case.late.update(weights=len(case.inputs["weights"]), x=UNMEASURED, y=UNMEASURED)
    return trial


# It is the host that sets the pace, here as at full size.
CAPTURE_TRIAL = Trial(_trial)
