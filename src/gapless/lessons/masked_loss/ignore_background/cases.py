"""Lesson 02: the inputs of ``ignore_background``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ....course.evidence import Case
from ....course.stage import Given
from ....course.variants import covering, varied
from ..cases import LABEL_KINDS, LAYOUTS, RANDOM, SHAPES, full_labels, make_labels, name_of


def background_cases(seed: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    picks = covering(rng, labels=LABEL_KINDS, shape=SHAPES, layout=LAYOUTS)
    # Where `reshape` has to copy, what is written into its result is lost.
    picks += [{"labels": RANDOM, "shape": (2, 6, 5), "layout": layout} for layout in LAYOUTS]
    return [varied(Case(name_of(pick["shape"], pick["labels"]), {"target": make_labels(rng, pick["shape"], pick["labels"])}),
                   layout=pick["layout"]) for pick in picks]


def full_background(device: torch.device) -> Callable[[], Given]:
    labels = full_labels(device)
    return lambda: Given({"target": labels.clone()})
