"""Lesson 01: the inputs of ``choose_batch_size``."""

from __future__ import annotations

import numpy as np

from .... import vgpu
from ....course.evidence import Case
from ....evidence import views
from ..cases import CARDS, DIP, ONE_FITS, SLOW, STEADY
from .right import ENOUGH
from .traces import Network, step_ms, steps_at

FULL_EARLY, MEMORY_ENDS = "the card is full early", "the memory ends before the gain does"


def batch_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def pick(*cards):
        return str(rng.choice(cards))

    def width(*widths):
        return int(rng.choice(widths))

    cases, wanted = [_batch_case(rng, EACH_RULE, *_table_of_rules(rng))], (
        (FULL_EARLY, lambda: (Network(int(rng.integers(5, 8)), width(768, 1024), 197, 30_000_000),
                                            pick("t4", "v100", "a10g"))),
        ("the host cannot keep up with a small batch", lambda: (
            Network(int(rng.integers(5, 8)), width(768, 1024), 197, 30_000_000), pick("h100", "h200"))),
        (MEMORY_ENDS, lambda: (
            Network(int(rng.integers(4, 7)), 512, 49, int(rng.uniform(0.1e9, 0.4e9)), fixed_ms=float(rng.uniform(2, 5))),
            pick("a10g", "a100"))),
        ("one long kernel keeps the card busy whatever the batch", lambda: (
            Network(int(rng.integers(4, 7)), 512, 49, 1_000_000, fixed_ms=float(rng.uniform(2, 4))), pick(*CARDS))),
        ("copies take their share", lambda: (Network(int(rng.integers(5, 8)), 1024, 1, 400_000), pick(*CARDS))),
    )
    for name, draw in wanted:
        while True:
            candidates = sorted({int(n) for n in rng.choice([2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256], 7,
                                                            replace=False)})
            network, card = draw()
            table = {batch: _measured(network, card, batch) for batch in candidates}
            if _telling(table) and (None in table.values() or name != MEMORY_ENDS) \
                    and (len(_enough(table)) > 1 or name != FULL_EARLY):
                break
        cases.append(_batch_case(rng, f"{name} ({vgpu.CARDS[card].name})", table))
    tables = _drawn_tables(rng)
    cases += [_batch_case(rng, name, table) for name, table in tables.items()]
    return [*cases, *(_failing(_batch_case(rng, STEADY, tables[STEADY]), kind) for kind in (
        "RuntimeError", "ValueError", "MemoryError", pick("KeyError", "TypeError", "AssertionError")))]


def _failing(case: Case, kind: str) -> Case:
    """One batch, neither the smallest nor the largest, raises an error that has nothing to do with memory."""
    batch = sorted(case.options["candidates"])[2]
    return Case(f"a {kind} for the batch {batch}", {}, {**case.options, "errors": {str(batch): kind}})


def _batch_case(rng: np.random.Generator, name: str, table: dict[int, dict | None], order: list[int] | None = None) -> Case:
    order = order or _order(rng, table)
    return Case(name, {}, {"candidates": order, "table": {str(batch): table[batch] for batch in order}})


EACH_RULE = "many batches"


def _table_of_rules(rng: np.random.Generator) -> tuple[dict[int, dict | None], list[int]]:
    """A table, and an order of its batches, for which each usual rule gives another batch."""
    # batch: (throughput as a share of the best, GPU utilisation)
    rows = {8: (0.30, 0.41), 12: (0.65, 0.62), 16: (0.80, 0.77), 18: (0.83, 0.9495), 20: (0.925, 0.93),
            21: (0.9275, 0.935), 22: (0.935, 0.931), 23: (0.944, 0.947), 24: (0.9565, 0.942), 26: (0.972, 0.952),
            32: (0.992, 0.955), 40: (0.975, 0.96), 44: (0.98, 0.999), 48: (1.0, 0.97), 52: (0.94, 0.965),
            56: (0.97, 0.953), 64: (0.96, 0.961), 80: (0.90, 0.958), 96: None}
    unit, speed = int(rng.integers(1, 5)), float(rng.uniform(0.5, 4))
    table = {unit * batch: None if row is None else {"step_ms": round(unit * batch / (speed * row[0]), 4),
                                                     "gpu_utilization": row[1]} for batch, row in rows.items()}
    first, last = ([unit * batch for batch in some] for some in ((52, 56, 40, 21, 96), (80,)))
    return table, [*first, *(int(batch) for batch in rng.permutation([*table.keys() - {*first, *last}])), *last]


def _drawn_tables(rng: np.random.Generator) -> dict[str, dict[int, dict | None]]:
    """Tables that no modelled card gives. None is within 0.5 % of the limit."""

    def table(batches, speeds, none=()) -> dict[int, dict | None]:
        return {batch: None if batch in none else {"step_ms": round(batch / speed, 4),
                                                   "gpu_utilization": round(float(rng.uniform(0.6, 0.97)), 4)}
                for batch, speed in zip(batches, speeds)}

    gain = float(rng.uniform(1.02, 1.04))
    # Gains below the limit each, that add up; the best is the last but one.
    steady = [gain**step for step in range(7)] + [gain**5.5]
    # Enough already before the dip: who halves the range, or walks down from the largest, does not come back to it.
    dip = [1.0, 1.6, 2.62, 1.5, 2.4, 2.7, 2.68]
    while any(abs(speed / max(speeds) - ENOUGH) < 0.005 for speeds in (steady, dip) for speed in speeds):
        gain = float(rng.uniform(1.02, 1.04))
        steady = [gain**step for step in range(7)] + [gain**5.5]
    scale = float(rng.uniform(0.5, 3))
    return {
        STEADY: table((8, 16, 24, 32, 48, 64, 96, 128), [scale * speed for speed in steady]),
        DIP: table((8, 16, 24, 28, 32, 48, 64), [scale * speed for speed in dip]),
        ONE_FITS: table((4, 8, 16), (1.0, 1.0, 1.0), none=(8, 16)),
        SLOW: table((1, 2, 4, 8, 16), [speed / 1500 for speed in (1.0, 1.9, 3.1, 3.4, 3.45)], none=(16,)),
    }


def _order(rng: np.random.Generator, table: dict[int, dict | None]) -> list[int]:
    """The batches in an order in which neither the first that is fast enough nor the first that fits ends the search:
    those that do not fit, one that is larger than need be, the others by chance."""
    order = [int(batch) for batch in rng.permutation(list(table))]
    larger = _enough(table)[1:][-1:]
    return sorted(order, key=lambda batch: 0 if table[batch] is None else 1 if batch in larger else 2)


def _enough(table: dict[int, dict | None]) -> list[int]:
    """The batches whose throughput is near the best, the smallest first."""
    speeds = {batch: batch / row["step_ms"] for batch, row in table.items() if row is not None}
    return sorted(batch for batch, speed in speeds.items() if speed >= ENOUGH * max(speeds.values()))


def _measured(network: Network, card: str, batch: int) -> dict | None:
    trace = steps_at(network, card, batch)
    return None if trace is None else {"step_ms": round(step_ms(trace), 4),
                                       "gpu_utilization": round(views.gpu_utilization(trace), 4)}


def _telling(table: dict[int, dict | None]) -> bool:
    """Whether the answer does not hang on the last digit, and is not that of the highest utilisation."""
    fits = {batch: row for batch, row in table.items() if row is not None}
    if len(fits) < 3:
        return False
    best = max(batch / row["step_ms"] for batch, row in fits.items())
    if any(abs(batch / row["step_ms"] / best - ENOUGH) < 0.01 for batch, row in fits.items()):
        return False
    right = min(batch for batch, row in fits.items() if batch / row["step_ms"] >= ENOUGH * best)
    return right != max(fits, key=lambda batch: fits[batch]["gpu_utilization"])
