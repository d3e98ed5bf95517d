"""Lesson 03: the functions as first written. Right, and slow.

TorchMetrics is imported when it is needed: the core does without.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

import torch

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
    """Name → class of TorchMetrics; ``items()`` and the like, as of a dict."""

    _names = {"accuracy": "MulticlassAccuracy", "precision": "MulticlassPrecision", "recall": "MulticlassRecall",
              "f1": "MulticlassF1Score"}

    def __getitem__(self, name: str) -> type:
        return getattr(torchmetrics().classification, self._names[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


METRICS = _FourMetrics()


# -- as first written -----------------------------------------------------------------------------


def MeanMetric(**options):
    """TorchMetrics' class, imported when it is needed."""
    return torchmetrics().MeanMetric(**options)


def update_loss(metric, loss, batch):
    """Take the mean loss (a scalar on the device) of a batch of that many images into a MeanMetric."""
    metric.update(loss, weight=batch)


def suppress_nan_check(MetricClass):
    """A class like MetricClass (any of TorchMetrics' aggregators) that does not look for NaN."""
    return MetricClass


def collect(outputs, targets):
    """Four macro averages over all batches: name → scalar. Lists of logits N×C and of labels N, on the device."""
    with outputs[0].device:
        metrics = {name: metric(num_classes=CLASSES, average="macro") for name, metric in METRICS.items()}
    for output, target in zip(outputs, targets):
        for metric in metrics.values():
            metric(output, target)
    return {name: metric.compute() for name, metric in metrics.items()}


def step_time_metric(device):
    """A metric that is updated with step times (Python floats) and computes their mean."""
    return MeanMetric().to(device)


def evaluate(model, loader, device):
    """Four macro averages over a loader of (images, targets), targets that are IGNORE left out: name → scalar."""
    with device:
        metrics = {name: metric(num_classes=CLASSES, average="macro", ignore_index=IGNORE)
                   for name, metric in METRICS.items()}
    with torch.no_grad():
        for images, targets in loader:
            predictions = model(images).argmax(dim=1)
            for metric in metrics.values():
                metric.update(predictions, targets)
    return {name: metric.compute() for name, metric in metrics.items()}
