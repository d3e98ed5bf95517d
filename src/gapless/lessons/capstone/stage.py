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
from ..data_loading.stage import forking
from .host import DECODE_MS, decode, decoded, forget_decoded, measured_on, synchronize

DECODED = "records that were decoded"


def names() -> dict:
    """Name → what it stands for."""
    return {"torch": torch, "nn": nn, "F": F, "np": np, "DataLoader": DataLoader, "Dataset": Dataset,
            "RandomSampler": RandomSampler, "dataclass": dataclass, "decode": decode,
            "synchronize": synchronize}


def ask_findings(function, given, device):
    """A list of pairs of text. Raises Unusable."""
    yield
    found = function()
    yield
    if not isinstance(found, (list, tuple)):
        raise Unusable(f"it returned a {type(found).__name__}, not a list of findings, each (part of a line, cause).")
    for finding in found:
        if not isinstance(finding, (list, tuple)) or len(finding) != 2 or not all(type(each) is str for each in finding):
            raise Unusable(f"{finding!r:.80} is not a finding: write (part of a line, cause), both as text.")
    return [list(finding) for finding in found]


def ask_train(function, given, device):
    """What the program reports of a run, and how many records it has decoded: its inputs are on the host, its settings have
    names."""
    yield
    forget_decoded()
    with forking(), measured_on(device, given.options.get("decode_ms", DECODE_MS)):
        report = function(*given.inputs.values(), device, **given.options["settings"])
    yield
    if not isinstance(report, dict):
        raise Unusable(f"it returned a {type(report).__name__}, not a dict like the slow program's: is there a `return`?")
    return {**report, DECODED: decoded()}
