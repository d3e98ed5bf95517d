"""Lesson 04: how ``make_loader`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import os

import numpy as np
import torch
from torch.utils.data import Dataset

from ....course.plain import Unusable
from ....measure.device import host_work
from ..stage import forking

EPOCHS = 3
_SIDE = 4


class Augmented(Dataset):
    """Black images with noise from ``rng``: (image, label, the process that made it)."""

    def __init__(self, samples: int, device: torch.device, ms: float = 2.0):
        self.rng = np.random.default_rng(0)
        self._samples, self._device, self._ms = samples, device, ms

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int, int]:
        host_work(self._ms, self._device)  # decoding
        image = np.zeros((1, _SIDE, _SIDE), np.float32)
        image += self.rng.normal(size=image.shape)
        return torch.from_numpy(image), place, os.getpid()


def _told(batch) -> dict:
    """A batch's facts. Raises Unusable."""
    try:
        images, labels, processes = batch
        return {"labels": labels.tolist(), "noise": [image.flatten().tolist() for image in images],
                "processes": [int(number) for number in processes], "dtype": str(images.dtype),
                "pinned": images.is_pinned() and labels.is_pinned()}
    except (AttributeError, TypeError, ValueError):
        raise Unusable(f"its loader gives {type(batch).__name__}s that do not hold what the dataset's samples hold (an "
                       "image, a label and a process): a DataLoader puts samples together by itself, leave `collate_fn` "
                       "alone.") from None


def ask_make_loader(function, given, device):
    """What comes out of the loader in three epochs, and how many batches it asks of each worker beforehand."""
    options = given.options
    dataset = Augmented(options["samples"], device)
    yield
    with forking():
        loader = function(dataset, options["batch_size"], options["workers"])
        epochs = [[_told(batch) for batch in loader] for _ in range(EPOCHS)]
    yield
    return {"epochs": epochs, "own process": os.getpid(), "prefetch": getattr(loader, "prefetch_factor", None)}
