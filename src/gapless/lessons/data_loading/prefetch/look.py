"""Lesson 04: what the notebook shows for ``prefetch``."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ....course.stage import Call, Given
from .stage import ask_prefetch

BATCHES = 6  # of a measured call
ROWS, SIDE = 256, 224  # images of a batch, and their height and width, at full size
PATCH, OUTPUTS = 192, 160  # numbers of a patch of an image, and outputs of the layer that each goes through
AT_FULL_SIZE = {"kind": "a tuple", "pinned": ["images"], "shape": [ROWS, 3, SIDE, SIDE], "weight": [PATCH, OUTPUTS],
                "batches": BATCHES}


def epoch(function, device: torch.device, batches: int = BATCHES) -> Callable[[], None]:
    """A step that is an epoch of so many batches through ``function(loader, device)``. On the virtual GPU call it inside
    ``full_size``."""

    def step():
        Call(ask_prefetch, function, Given({}, {**AT_FULL_SIZE, "batches": batches}), device).run()

    return step
