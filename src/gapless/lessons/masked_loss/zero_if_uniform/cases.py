"""Lesson 02: the inputs of ``zero_if_uniform``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from ....course.evidence import Case
from ....course.stage import Given
from ....course.variants import CONTIGUOUS, DTYPES, covering, varied
from ..cases import (
    HALF,
    IGNORED,
    LABEL_KINDS,
    LAST_ONE,
    LAYOUTS,
    MIXED_KINDS,
    NEARLY,
    ONE_CLASS,
    RANDOM,
    SHAPES,
    full_labels,
    make_labels,
    name_of,
)

LOSSES = {"an ordinary loss": None, "a loss that is nan": np.nan, "an infinite loss": np.inf, "a loss of 0": 0.0,
          "a negative loss": -1.5}


def uniform_cases(seed: int) -> list[Case]:
    """Every kind of label, and every kind of loss with labels that are all the same."""
    rng = np.random.default_rng(seed)
    picks = covering(rng, labels=LABEL_KINDS, shape=SHAPES, layout=LAYOUTS, dtype=DTYPES)
    picks += [{**pick, "shape": (2, 16, 16)} for pick in covering(rng, labels=MIXED_KINDS, layout=LAYOUTS, dtype=DTYPES)]
    picks += [{**pick, "labels": kind} for kind, pick in zip((ONE_CLASS, IGNORED, RANDOM, ONE_CLASS), covering(
        rng, loss=list(LOSSES)[1:], shape=SHAPES[:4], layout=LAYOUTS, dtype=DTYPES))]
    # So many pixels that one of another class hardly shows in a mean or a deviation.
    picks.append({"labels": NEARLY, "shape": (2, 256, 256), "layout": CONTIGUOUS, "dtype": "float32"})
    picks.append({"labels": LAST_ONE, "shape": (8, 160, 160), "layout": CONTIGUOUS, "dtype": "float32"})
    picks.append({"labels": HALF, "shape": (2, 256, 256), "layout": CONTIGUOUS, "dtype": "float32"})
    cases = []
    for pick in picks:
        kind = pick.get("loss", "an ordinary loss")
        loss = np.array(rng.uniform(0.5, 3.0) if LOSSES[kind] is None else LOSSES[kind], dtype=np.float32)
        name = name_of(pick["shape"], pick["labels"]) + (f", {kind}" if "loss" in pick else "")
        cases.append(varied(Case(name, {"loss": loss, "target": make_labels(rng, pick["shape"], pick["labels"])},
                                 needs_grad=("loss",)), pick["dtype"], pick["layout"]))
    return [*cases, replace(cases[0], name=f"{cases[0].name}, without gradients", needs_grad=())]


def full_uniform(device: torch.device) -> Callable[[], Given]:
    labels, loss = full_labels(device), torch.ones((), device=device)
    return lambda: Given({"loss": loss, "target": labels.clone()}, needs_grad=("loss",))
