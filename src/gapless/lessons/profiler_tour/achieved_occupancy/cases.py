"""Lesson 01: the inputs of ``achieved_occupancy``."""

from __future__ import annotations

import numpy as np

from ....course.evidence import Case
from ..cases import REAL, busy_cases, cases_of_efficiency, trace_case
from ..disturbances import early_work
from ..real import real_step


def occupancy_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    # The tools leave out kernels before the first step: the text says that there are none.
    return [*cases_of_efficiency(rng), *busy_cases(rng, without=(early_work,)), trace_case(REAL, real_step())]
