"""Lesson 08: steps and memories for the search of a batch."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case


def fitting_cases(seed: int) -> list[Case]:
    """Steps of each kind; all fit, none fits, one fits, and the most is met or missed by one."""
    rng = np.random.default_rng(seed)

    def between(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    def case(name: str, kind: str, fits: float, most: int) -> Case:
        # The network, its gradients and their momenta, and what SGD makes in a step, take some MiB of their own.
        return Case(name, {}, {"kind": kind, "fits": fits, "most": most, "row_mib": between(80, 120), "extra_mib": 60})

    return [
        case("training with momentum", "training", between(25, 45), 1024),
        case("a step that keeps its result until the next call", "keeps the last", between(25, 45), 1024),
        case("an error that is not of memory", "broken", 30, 512),
        case("inference", "inference", between(8, 14), 4096),
        case("none fits", "training", 0.0, 256),
        case("all fit", "training", 200, between(30, 60)),
        case("only one row fits", "training", 0.75, 64),
        case("the most is one", "training", 20, 1),
        case("a workspace that some batches want and larger ones do not", "workspace", between(25, 45), 700),
        case("a step that keeps more with each call", "leaks", between(25, 45), 1024),
    ]
