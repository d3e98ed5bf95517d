"""Lesson 01: the inputs of ``achieved_occupancy``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ..cases import REAL, busy_cases, cases_of_efficiency, trace_case
from ..disturbances import OCCUPANCY, early_work
from ..real import real_step
from ..traces import busy_trace


def occupancy_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    zero = [{**event, "args": {**event["args"], OCCUPANCY: 0}} if event["cat"] == "kernel" else event
            for event in busy_trace(rng)]
    # The text asks for the mean over all kernels; the tools leave out those before the first step.
    return [*cases_of_efficiency(rng), *busy_cases(rng, without=(early_work,)), trace_case("every kernel tells 0", zero),
            trace_case(REAL, real_step())]
