"""Lesson 02: the inputs of ``masked_cross_entropy``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from ....course.evidence import Case
from ....course.stage import Given
from ....course.variants import DTYPES, covering, varied
from ..cases import (
    LABEL_KINDS,
    LAYOUTS,
    MANY,
    MANY_CLASSES,
    NO_BACKGROUND,
    SHAPES,
    full_labels,
    make_labels,
    name_of,
    on_device,
)
from ..stage import BACKGROUND, CLASSES, IGNORE
from ..workload import size_for

SCALES = {"": 2.0, ", large logits": 30.0, ", all logits alike": 0.0}


def cross_entropy_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    cases = []
    for pick in covering(rng, labels=(*LABEL_KINDS, MANY_CLASSES), shape=SHAPES,
                         layout=(*LAYOUTS, "channels_last"), dtype=DTYPES, scale=list(SCALES)):
        batch, *plane = pick["shape"]
        classes = MANY if pick["labels"] == MANY_CLASSES else CLASSES
        pred = rng.normal(0, 1, size=(batch, classes, *plane)) * SCALES[pick["scale"]]
        target = make_labels(rng, pick["shape"], pick["labels"])
        if "large" in pick["scale"]:  # half of the pixels are so sure and right that their loss is 0
            sure = np.arange(classes).reshape(-1, 1, 1) == np.where(rng.random(target.shape) < 0.5, target, IGNORE)[:, None]
            pred += 200.0 * sure
        case = Case(name_of(pick["shape"], pick["labels"]) + pick["scale"],
                    {"pred": pred.astype(np.float32), "target": target}, needs_grad=("pred",))
        cases.append(varied(case, pick["dtype"], pick["layout"]))
    never = Case("a class that no pixel has, with logits of -inf", {
        "pred": rng.normal(size=(2, CLASSES, 5, 6)).astype(np.float32),
        "target": make_labels(rng, (2, 5, 6), NO_BACKGROUND)}, needs_grad=("pred",))
    never.inputs["pred"][:, BACKGROUND] = -np.inf
    return [*cases, never, replace(cases[0], name=f"{cases[0].name}, without gradients", needs_grad=())]


def full_cross_entropy(device: torch.device) -> Callable[[], Given]:
    size, labels = size_for(device), full_labels(device)
    shape = (size.batch, CLASSES, size.side, size.side)
    pred = on_device(shape, torch.float32, device, lambda: torch.randn(shape))
    return lambda: Given({"pred": pred, "target": labels.clone()}, needs_grad=("pred",))
