"""Lesson 01: the inputs of ``gpu_utilization``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ..cases import REAL, busy_cases, cases_of_last_work, trace_case
from ..disturbances import early_work
from ..real import real_step
from ..traces import busy_trace
from .traces import host_trace


def utilization_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    return [
        trace_case("one stream", busy_trace(rng)),
        trace_case("two streams at once", busy_trace(rng, streams=2)),
        trace_case("copies between the kernels", busy_trace(rng, copies=True)),
        trace_case("short kernels while a long one runs on another stream", busy_trace(rng, within=True)),
        trace_case("the GPU works on after the last step", busy_trace(rng, late=True)),
        *cases_of_last_work(rng),
        trace_case("a kernel runs on from before the first step", busy_trace(rng, running=True)),
        trace_case("no kernel at all", host_trace(rng)),
        trace_case("copies, and no kernel", host_trace(rng, copies=True)),
        trace_case("every kernel ended before the first step", early_work(rng, host_trace(rng))),
        trace_case("a single kernel", host_trace(rng, kernels=1)),
        *busy_cases(rng),
        trace_case(REAL, real_step()),
    ]
