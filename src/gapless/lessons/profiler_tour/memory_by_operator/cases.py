"""Lesson 01: the inputs of ``memory_by_operator``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ..cases import trace_case, trapped_cases
from ..disturbances import nested
from ..traces import Traps, training_trace


def memory_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)

    def make() -> list[dict]:
        return training_trace(rng, Traps(outside=True), int(rng.integers(1, 3)))

    return [
        trace_case("forward only", training_trace(rng, Traps(backward=False))),
        trace_case("forward and backward", training_trace(rng)),
        trace_case("frees outside operators, and the host's memory", training_trace(rng, Traps(outside=True))),
        trace_case("the main thread is busy while the backward thread allocates",
                    training_trace(rng, Traps(own_thread_busy=True, outside=True))),
        *(trace_case(name, events) for name, events in trapped_cases(rng, make, without=(nested,))),
    ]
