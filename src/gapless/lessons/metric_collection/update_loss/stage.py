"""Lesson 03: how ``update_loss`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch

from ....course.plain import Unusable
from ..stage import quietly, torchmetrics

MORE_CALLS = "more calls of `update` than batches"


@quietly
def ask_update_loss(function, given, device):
    """The weighted mean of the losses; and unless it is only timed, on from there."""

    weights = []

    class Watched(torchmetrics().MeanMetric):
        def update(self, value, weight=None):
            weights.append(weight)  # kept, so that a new one has other memory
            super().update(value, weight)

    def mean_metric(kind: type | None = None):
        metric = (kind or torchmetrics().MeanMetric)().to(device)
        return metric.set_dtype(getattr(torch, given.options["dtype"])) if "dtype" in given.options else metric

    metric, losses, batches = mean_metric(), given.inputs["losses"].unbind(), given.options["batches"]
    before, writes = _settings(metric), given.inputs["losses"]._version

    def update(*metrics, count: int = len(batches)) -> None:
        for i, (loss, batch) in enumerate(zip(losses[:count], batches[:count])):
            function(metrics[i % len(metrics)], loss, batch)

    yield
    update(metric)
    yield
    found = {"mean": metric.compute()}
    if given.options.get("only_timed"):
        return found
    if given.inputs["losses"]._version != writes:
        raise Unusable("it has written into `loss`, which belongs to the caller: the training loop may still need it. Make "
                       "a new tensor.")
    if changed := sorted(name for name, value in _settings(metric).items() if before.get(name) != value):
        raise Unusable(f"it has changed `metric.{changed[0]}`. The caller chose it, and others update this metric too: "
                       "leave its settings as they are.")
    found[MORE_CALLS] = metric._update_count > len(batches)
    update(metric, count=1)
    found["mean after another update"] = metric.compute()
    one = torch.ones((), dtype=metric.dtype, device=device)
    metric.update(one, one * 50)  # somebody else's: the sum of the weights has to be right too
    found["mean after 50 more images of loss 1"] = metric.compute()
    metric.reset()
    other = mean_metric(Watched)
    update(metric, other)
    update(other)
    own = {loss.data_ptr() for loss in losses}
    places = [weight.data_ptr() for weight in weights if isinstance(weight, torch.Tensor) and weight.numel()]
    if not found[MORE_CALLS] and len(set(places)) < len(places) and not own.intersection(places):
        raise Unusable("two updates were given the same tensor as weight, which was kept from one call to the next. Make a "
                       "new one in each call.")
    return {**found, "means of two metrics, updated in turn after a reset": [metric.compute(), other.compute()]}


_OF_UPDATES = {"_update_count", "_update_called", "_computed", "_forward_cache", "_cache", "_is_synced"}


def _settings(metric) -> dict:
    """Attribute → its value, without the state and what TorchMetrics notes of updates."""
    return {name: {each: id(value) for each, value in found.items()} if isinstance(found, dict) else found
            for name, found in vars(metric).items() if name not in metric._defaults and name not in _OF_UPDATES}
