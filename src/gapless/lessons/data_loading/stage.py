"""Lesson 04: what an exercise's cell finds defined, and how each exercise's function is called.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
import torch.nn.functional as F
from torch import multiprocessing, nn
from torch.utils._pytree import tree_map
from torch.utils.data import DataLoader, get_worker_info

from ...measure.device import clock_ms


def start_method(workers: int = 1) -> str | None:
    """How this lesson's workers are started, for ``DataLoader(multiprocessing_context=…)``: forked where the system can,
    whatever its default (since Python 3.14 that is a server). Any other start takes seconds, and needs a dataset and a
    ``worker_init_fn`` that can be pickled, which those of a notebook's cells cannot. None: no workers, or the default."""
    return "fork" if workers and "fork" in multiprocessing.get_all_start_methods() else None


@contextmanager
def forking() -> Iterator[None]:
    """Inside, worker processes are started as :func:`start_method` says."""
    before, wanted = multiprocessing.get_start_method(allow_none=True), start_method()
    if wanted is not None:
        multiprocessing.set_start_method(wanted, force=True)
    try:
        yield
    finally:
        multiprocessing.set_start_method(before, force=True)


def names() -> dict:
    """Name → what it stands for."""
    return {"torch": torch, "nn": nn, "F": F, "tree_map": tree_map, "clock_ms": clock_ms, "np": np,
            "DataLoader": DataLoader, "get_worker_info": get_worker_info}
