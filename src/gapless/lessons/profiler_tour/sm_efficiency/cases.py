"""Lesson 01: the inputs of ``sm_efficiency``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ..cases import REAL, busy_cases, cases_of_efficiency, cases_of_last_work, trace_case
from ..disturbances import early_work
from ..gpu_utilization.traces import host_trace
from ..real import real_step
from ..traces import busy_trace


def efficiency_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    running = busy_trace(rng, running=True)
    return [*cases_of_efficiency(rng), trace_case("a kernel runs on from before the first step", running),
            *cases_of_last_work(rng), *busy_cases(rng), trace_case("no kernel at all", host_trace(rng)),
            trace_case("copies, and no kernel", host_trace(rng, copies=True)),
            trace_case("every kernel ended before the first step", early_work(rng, host_trace(rng))),
            trace_case(REAL, real_step())]
