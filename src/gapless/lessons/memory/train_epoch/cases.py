"""Lesson 08: epochs for ``train_epoch``, short ones and a long one."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ....course.exercise import Trial

_SIZES = {"columns": 32, "width": 96, "depth": 3, "classes": 48}


def _epoch(rng: np.random.Generator, name: str, steps: int, rows: int, *, failing=(), every: int = 4, looks: int = 2,
           broken: int | str | None = None, error: str = "RuntimeError", stale: bool = False, **sizes) -> Case:
    """``failing``: the numbers of the batches with too few labels; ``looks``: batches of validation data; ``broken``:
    the number of a batch that has another fault, or "validation" for the fault of the last batch there, or "loader",
    which then fails itself. An ``error`` of this class is raised, which must reach the caller. ``stale``: there are
    gradients before the epoch."""
    options = {**_SIZES, **sizes, "seed": int(rng.integers(2**31)), "failing": sorted(int(each) for each in failing),
               "every": every, "broken": broken, "error": error, "stale": stale}

    def data(count: int, less: int = 0) -> tuple[list, list]:
        sizes = [rows - less * number for number in range(count)]
        return ([rng.normal(size=(size, options["columns"])).astype(np.float32) for size in sizes],
                [rng.integers(0, options["classes"], size) for size in sizes])

    # Batches of validation data differ in size, as the last one does in a loader.
    (batches, labels), (others, their_labels) = data(steps), data(looks, less=4 * rows // 5)
    return Case(name, {"rows": batches, "labels": labels, "validation_rows": others, "validation_labels": their_labels},
                options)


def epoch_cases(seed: int) -> list[Case]:
    """All kinds of steps together, each by itself, and the shortest epochs."""
    rng = np.random.default_rng(seed)

    def some(low: int, high: int, count: int) -> list[int]:
        return list(rng.choice(np.arange(low, high), size=count, replace=False))

    return [
        _epoch(rng, "plain steps only", 8, 40, every=100),
        _epoch(rng, "a look at the validation data now and then", 12, 40, every=int(rng.integers(3, 5))),
        _epoch(rng, "batches that fail now and then", 14, 40, failing=some(3, 13, 5), every=100),
        _epoch(rng, "a long epoch, with looks and failures", 36, int(rng.integers(34, 46)),
               failing=some(3, 33, 6), every=int(rng.integers(5, 8))),
        _epoch(rng, "one step", 1, 5, every=1),
        _epoch(rng, "no step at all", 0, 5),
        _epoch(rng, "every batch fails", 3, 5, failing=(0, 1, 2)),
        _epoch(rng, "a batch fails in a step after which a look would follow", 12, 5, failing=(3,)),
        _epoch(rng, "the gradients of an earlier step are still there", 3, 5, stale=True),
        _epoch(rng, "a batch whose rows have too few columns", 4, 5, broken=2),
        *[_epoch(rng, f"a batch with a fault that raises {error}", 4, 5, broken=2, error=error)
          for error in ("IndexError", "TypeError", "KeyError", "ZeroDivisionError")],
        *[_epoch(rng, f"the loader raises {error}", 4, 5, broken="loader", error=error)
          for error in ("ValueError", "RuntimeError")],
        _epoch(rng, "a fault in the validation data, which raises ValueError", 4, 5, every=2, broken="validation",
               error="ValueError"),
    ]


def example_epoch() -> Case:
    """Forty steps, with looks and failures, for a picture."""
    return _epoch(np.random.default_rng(0), "forty steps", 40, 64, failing=(8, 17, 26, 33), every=6)


def _trial(rng: np.random.Generator, count: int) -> list[Case]:
    rows, width = int(rng.integers(180, 220)), int(rng.integers(90, 110))
    return [_epoch(rng, "an epoch", 6, rows, failing=(2, 4), every=2, width=width) for _ in range(count)]


EPOCH_TRIAL = Trial(_trial)
