"""Lesson 03: how ``update_loss`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch

from ..stage import quietly, torchmetrics


@quietly
def ask_update_loss(function, given, device):
    """The weighted mean of the losses; and unless it is only timed, on from there."""

    def mean_metric():
        metric = torchmetrics().MeanMetric().to(device)
        return metric.set_dtype(getattr(torch, given.options["dtype"])) if "dtype" in given.options else metric

    metric, losses, batches = mean_metric(), given.inputs["losses"].unbind(), given.options["batches"]

    def update(*metrics, count: int = len(batches)) -> None:
        for i, (loss, batch) in enumerate(zip(losses[:count], batches[:count])):
            function(metrics[i % len(metrics)], loss, batch)

    yield
    update(metric)
    yield
    found = {"mean": metric.compute()}
    update(metric, count=1)
    found["mean after another update"] = metric.compute()
    one = torch.ones((), dtype=metric.dtype, device=device)
    metric.update(one, one * 50)  # somebody else's: the sum of the weights has to be right too
    found["mean after 50 more images of loss 1"] = metric.compute()
    metric.reset()
    other = mean_metric()
    update(metric, other)
    return {**found, "means of two metrics, updated in turn after a reset": [metric.compute(), other.compute()]}
