"""Lesson 00: the inputs of ``predict_step_ms``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case


def prediction_cases(seed: int) -> list[Case]:
    """Programs in words that any card can fill: rows of (operator, how long, how often). A length in ms; or, as a
    "share", in parts of the time that the host needs for the step, or in "launches"; None for a kernel that does hardly
    anything."""
    rng = np.random.default_rng(seed)

    def case(name: str, *rows) -> Case:
        return Case(name, {}, {"rows": [list(row) for row in rows]})

    def ms(low: float, high: float) -> float:
        return round(float(rng.uniform(low, high)), 3)

    def count(low: int, high: int) -> int:
        return int(rng.integers(low, high))

    return [
        # So long that the time is more than a launch takes even where somebody takes its seconds for milliseconds.
        case("long matrix products", ("matmul", ms(16, 25), count(3, 6))),
        case("long sums", ("add", ms(1, 3), count(3, 7))),
        case("copies, which compute nothing", ("copy", ms(1, 3), count(3, 7)), ("add", ms(1, 1.5), 2)),
        case("products and sums", ("matmul", ms(1.5, 2.5), 2), ("add", ms(1, 1.5), 3)),
        case("thin products, a third as long to move as to compute", ("thin", ms(1, 2), count(2, 5))),
        case("kernels that take longer than the shortest, and less than a launch", ("add", "0.6 launches", count(150, 250))),
        case("many short kernels", ("add", None, count(150, 400))),
        case("short kernels of three kinds", ("add", None, count(90, 120)), ("copy", None, count(90, 120)),
             ("add", None, count(90, 120))),
        case("many short kernels and a long product, the host is slower",
             ("add", None, count(200, 300)), ("matmul", "0.5 share", 1)),
        case("many short kernels and a long product, the device is slower",
             ("add", None, count(200, 300)), ("matmul", "1.03 share", 1)),
        case("products, sums and short kernels", ("matmul", ms(1, 2), count(2, 4)), ("add", ms(0.5, 1), count(2, 6)),
             ("add", None, count(100, 200))),
    ]
