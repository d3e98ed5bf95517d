"""Lesson 04: the loaders whose best number of workers is asked for. Each makes one way of measuring go wrong."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from .stage import Times

MB = 10**6
_CANDIDATES = [0, 1, 2, 4, 8]


def workers_cases(seed: int) -> list[Case]:
    """Candidates whose epochs differ by less than 4.8 %, or by more than 5.4 %: what is right hangs on no last digit."""
    rng = np.random.default_rng(seed)

    def case(name: str, candidates: list[int] = _CANDIDATES, rows: int | None = None, **times) -> Case:
        options = {"candidates": candidates, "times": times}
        return Case(name, {}, options if rows is None else {**options, "rows": rows})

    def ms(low: float, high: float) -> float:
        return round(float(rng.uniform(low, high)), 3)

    def some(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    def lasting(none_ms: float, one_ms: float) -> Case:
        """An epoch takes exactly that long without workers, and with one."""
        times = Times(batches=4, work_ms=none_ms / 4)
        _, half_ms, _, end_ms = times.epoch_ms(1)
        return case(f"{none_ms} ms without workers, {one_ms} ms with one", [0, 1], batches=times.batches,
                    work_ms=times.work_ms, late=[[1, (one_ms - half_ms) / (end_ms - half_ms)]])

    def lucky(*workers: int) -> list:
        """Those are faster by a little that says nothing."""
        return [[number, round(1 - float(rng.uniform(0.008, 0.015)), 4)] for number in workers]

    return [
        case("workers that take long to start", batches=24, work_ms=ms(2.4, 3.2), start_ms=ms(150, 300)),
        case("files that were never read before", batches=24, work_ms=ms(0.04, 0.1), nbytes=some(1, 3) * MB // 2,
             cold_ms=ms(3, 6)),
        case("four cores", [0, 2, 4, 6, 8], batches=48, work_ms=ms(7, 10), cores=4, start_ms=ms(1, 2),
             luck=lucky(6, 8)),
        case("more workers than cores are in each other's way", [1, 2, 4, 8], batches=32, work_ms=ms(3, 5), cores=4,
             crowding=ms(0.04, 0.07), start_ms=ms(4, 8)),
        case("hardly any work", batches=32, work_ms=ms(0.02, 0.05), nbytes=some(1, 3) * MB // 2, start_ms=ms(4, 8)),
        case("one worker alone is slower than none", batches=24, work_ms=ms(2, 2.6), nbytes=some(8, 12) * MB,
             start_ms=ms(4, 8)),
        case("an epoch of a few batches", [2, 3, 6, 12], batches=6, work_ms=ms(3, 5), cores=12, start_ms=ms(10, 20)),
        # Of the best number alone, so that neither a mean of many epochs nor the slowest of them finds it.
        *(case(f"somebody else uses the host in every fourth epoch, from number {first + 1} on", [2, 3, 4], batches=24,
               work_ms=ms(2, 3), start_ms=60.0, disturbed=[[4, ms(2.6, 3.2)]], first_disturbed=first) for first in range(4)),
        case("candidates in no order", [6, 0, 8, 4, 2], batches=48, work_ms=ms(7, 10), cores=4, start_ms=ms(1, 2),
             luck=lucky(6, 8)),
        case("two that differ by less than 5 %", [4, 6], batches=48, work_ms=ms(7, 10), cores=4, start_ms=ms(1, 2),
             luck=[[6, 1 / 1.058]]),
        case("two that differ by more than 5 %, and a slow one", [1, 4, 6], batches=48, work_ms=ms(7, 10), cores=4,
             start_ms=ms(1, 2), luck=[[6, 1 / 1.07]]),
        # In whole milliseconds, rounded or cut off, these are the same.
        lasting(10.4, 9.8),
        lasting(10.9, 10.1),
        case("each faster by 4 % than the one before", [4, 6, 8], batches=48, work_ms=ms(7, 10), cores=4, start_ms=ms(1, 2),
             luck=[[6, 0.957], [8, 0.916]]),
        case("the larger samples come last", [4, 6], batches=48, work_ms=ms(7, 10), cores=4, start_ms=ms(1, 2),
             late=[[4, ms(1.4, 1.6)]]),
        case("one candidate", [some(0, 5)], batches=6, work_ms=ms(1, 2)),
        case("PyTorch's own loader", [2, 0], rows=2, batches=some(6, 9), work_ms=ms(30, 40), nbytes=2 * 8),
    ]
