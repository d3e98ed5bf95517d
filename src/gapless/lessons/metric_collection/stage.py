"""Lesson 03: what an exercise's cell finds defined, and how each exercise's function is called."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn

IGNORE = -1
CLASSES = 100  # of the exercises


@functools.cache
def torchmetrics():
    """The package. Raises ModuleNotFoundError, with what to do."""
    try:
        import torchmetrics as package
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"lesson 03 is about TorchMetrics, which is missing here ({error}): "
                                  "pip install torchmetrics torchvision") from error
    return package


class _FourMetrics(Mapping):
    """Name → class of TorchMetrics; ``items()`` and the other methods of a dict."""

    _names: ClassVar = {"accuracy": "MulticlassAccuracy", "precision": "MulticlassPrecision", "recall": "MulticlassRecall",
              "f1": "MulticlassF1Score"}

    def __getitem__(self, name: str) -> type:
        return getattr(torchmetrics().classification, self._names[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


METRICS = _FourMetrics()


def names() -> dict:
    """Name → what it stands for."""
    package = torchmetrics()
    return {"torch": torch, "nn": nn, "F": F, "METRICS": METRICS, "CLASSES": CLASSES, "IGNORE": IGNORE,
            "MeanMetric": package.MeanMetric, "MetricCollection": package.MetricCollection}


def quietly(ask):
    """TorchMetrics warns of a NaN, and of a compute before an update: not what a learner should read here."""

    @functools.wraps(ask)
    def quiet(*args):
        parts = ask(*args)
        while True:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    next(parts)
                except StopIteration as end:
                    return end.value
            yield

    return quiet
