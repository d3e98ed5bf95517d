"""Lesson 10: what the cells find defined, and how ``train`` and ``findings`` are called.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

from ...course.plain import Unusable
from ..data_loading.measuring_workers import forking
from .host import decode, synchronize


def names() -> dict:
    """Name → what it stands for."""
    return {"torch": torch, "nn": nn, "F": F, "np": np, "DataLoader": DataLoader, "Dataset": Dataset,
            "RandomSampler": RandomSampler, "dataclass": dataclass, "decode": decode,
            "synchronize": synchronize}


def ask_train(function, given, device):
    """What the program reports of a run: its inputs on the host, its settings by name."""
    yield
    with forking():
        report = function(*given.inputs.values(), device, **given.options["settings"])
    yield
    if not isinstance(report, dict):
        raise Unusable(f"it returned a {type(report).__name__}; a dict like the slow program's is wanted: is there "
                       "a `return`?")
    return report
