"""Lesson 05: the inputs of ``largest_batch``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from .stage import LAYERS, MULTIPLE, OTHER_ERRORS


def largest_batch_cases(seed: int) -> list[Case]:
    """Memories in which another number of samples fits, at the ends of the range too."""
    rng = np.random.default_rng(seed)

    def case(name: str, fits: int, most: int, broken: str = "") -> Case:
        sample = LAYERS * int(rng.integers(200, 900))
        return Case(name, {}, {"memory_bytes": fits * sample + int(rng.integers(0, sample)), "sample_bytes": sample,
                               "most": most, "broken": broken})

    return [
        case("some of the sizes fit", int(rng.integers(300, 500)), 1024),
        *(case(f"a step with an error that is not of the device's memory: {kind.__name__}({text!r})", 2000, 512, broken=text)
          for text, kind in OTHER_ERRORS.items()),
        case("all sizes fit", 2000, 512),
        case("the largest alone does not fit", 511, 512),
        case("none fits", int(rng.integers(1, MULTIPLE)), 256),
        case("only the smallest fits", int(rng.integers(MULTIPLE, 2 * MULTIPLE)), 256),
        case("the most is no multiple of 8, and all fits", 1000, 8 * int(rng.integers(20, 60)) + int(rng.integers(1, 8))),
        case("the most is less than 8", 1000, int(rng.integers(1, 8))),
        case("a large range", int(rng.integers(3000, 9000)), 10_000),
        case("a limit that is a multiple of 8", 8 * int(rng.integers(30, 90)), 1000),
        case("a limit just below a multiple of 8", 8 * int(rng.integers(30, 90)) - 1, 777),
    ]
