"""Lesson 08: steps and memories for the search of a batch."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case


def fitting_cases(seed: int) -> list[Case]:
    """Steps of each kind; many fit, all, one or none. Where all fit, the most is even and no power of 2,
    so that neither doubling nor halving from a power of 2 ends there by chance; or it is one, and doubling must not end
    before it."""
    rng = np.random.default_rng(seed)

    def between(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    def case(name: str, kind: str, fits: float, most: int, row_mib: int = 100) -> Case:
        # The network, its gradients and their momenta, and what SGD makes in a step, take some MiB of their own.
        return Case(name, {}, {"kind": kind, "fits": fits, "most": most, "extra_mib": 60,
                               "row_mib": between(4 * row_mib // 5, 6 * row_mib // 5)})

    return [
        case("training with momentum", "training", between(25, 45), 1024),
        case("a step that keeps its result until the next call", "keeps the last", between(25, 45), 1024),
        case("an error that is not of memory", "broken", 30, 512),
        *[case(f"a step that raises {error}, which is not of the device's memory", f"broken, {error}", 30, 512)
          for error in ("ValueError", "MemoryError", str(rng.choice(("TypeError", "KeyError", "AssertionError"))))],
        case("a step that keeps something from its second call on", "settles", between(25, 45), 1024),
        case("a step that returns its loss", "returns its loss", between(25, 45), 1024),
        case("a single layer, into which more than a thousand rows fit", "a layer", between(170, 210), 4096, row_mib=5),
        case("inference", "inference", between(8, 14), 4096),
        case("none fits", "training", 0.0, 256),
        case("all fit", "training", 200, 2 * between(17, 30)),
        case("all fit, and the most is a power of 2", "training", 200, 2 ** between(4, 6)),
        case("many small rows fit", "training", between(90, 130), 2048, row_mib=20),
        case("only one row fits", "training", 0.75, 64),
        case("the most is one", "training", 20, 1),
        case("a workspace that some batches want and larger ones do not", "workspace", between(25, 45), 700),
        case("a step that keeps more with each call", "leaks", between(25, 45), 1024),
    ]
