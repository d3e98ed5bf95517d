"""Lesson 04: what is right for ``make_loader``."""

from __future__ import annotations

import os

import numpy as np
import torch


class _Wanted:
    """What a right loader gives, without its processes: each takes a while to start. Those of the workers are numbered
    below 0."""

    prefetch_factor = 2

    def __init__(self, dataset, batch_size: int, workers: int):
        self._samples, self._batch_size, self._workers = len(dataset), batch_size, workers

    def __iter__(self):
        rng = np.random.default_rng()
        for number, labels in enumerate(torch.randperm(self._samples).split(self._batch_size)):
            images = torch.from_numpy(rng.normal(size=(len(labels), 1, 4, 4)).astype(np.float32)).pin_memory()
            yield images, labels.pin_memory(), [-1 - number % self._workers if self._workers else os.getpid()] * len(labels)


def right_make_loader(dataset, batch_size, workers):
    """Nothing is loaded."""
    return _Wanted(dataset, batch_size, workers)
