"""Lesson 03: what an exercise's cell finds defined, and how each exercise's function is called."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from ...course.cells import describe_error
from ...course.plain import Unusable
from .functions import CLASSES, IGNORE, METRICS, torchmetrics


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


@quietly
def ask_update_loss(function, given, device):
    """The weighted mean of the losses; and unless it is only timed, again later."""
    metric = torchmetrics().MeanMetric().to(device)
    losses, batches = given.inputs["losses"].unbind(), given.options["batches"]

    def update(count: int) -> None:
        for loss, batch in zip(losses[:count], batches[:count]):
            function(metric, loss, batch)

    yield
    update(len(batches))
    yield
    found = {"mean": metric.compute()}
    update(1)
    found |= {"mean after another update": metric.compute(), "number of updates": metric.update_count}
    metric.reset()
    update(len(batches))
    return {**found, "mean after a reset": metric.compute()}


@quietly
def ask_suppress(function, given, device):
    """What metrics of the decorated classes compute: once, cloned, and after a reset."""
    metrics = [_decorated(function, name)(sync_on_compute=False).to(device) for name in given.options["metrics"]]
    rows = given.options.get("rows") or [list(row) for row in zip(*(tensor.unbind() for tensor in given.inputs.values()))]

    def update(targets) -> None:
        for name, target in zip(given.options["metrics"], targets):
            for row in rows:
                target.update(*row[:2 if name == "MeanMetric" else 1])  # the others take no weight

    yield
    try:
        update(metrics)
    except (AttributeError, TypeError, ValueError) as error:
        raise Unusable(f"its update raised {describe_error(error, 'suppress_nan_check')}. The method that looks for NaN "
                       "takes `(self, x, weight=None)`, where `SumMetric` and the like give no weight, and has to "
                       "return two tensors, the values and the weights.") from error
    yield
    found = {"value": [metric.compute() for metric in metrics]}
    copies = [metric.clone() for metric in metrics]
    update(copies)
    found["value of a clone, updated again"] = [copy.compute() for copy in copies]
    for metric in metrics:
        metric.reset()
    update(metrics)
    return {**found, "value after a reset": [metric.compute() for metric in metrics],
            "device": all(metric.device.type == device.type for metric in metrics)}


def _decorated(function, name: str) -> type:
    """The learner's version of an aggregator class. Raises Unusable."""
    base = getattr(torchmetrics(), name)

    class Aggregator(base):
        """The learner's decorator may change this class or make another of it."""

    decorated = function(Aggregator)
    if not isinstance(decorated, type):
        raise Unusable(f"it returned a {type(decorated).__name__}; a class is wanted: the one it was given, changed, or "
                       "a new one that inherits from it.")
    if not issubclass(decorated, base):
        raise Unusable(f"the class does not inherit from the one that was given ({name}): write "
                       "`class …(MetricClass)`, not the name of one of them.")
    return decorated


@quietly
def ask_collect(function, given, device):
    """Four averages over batches of logits and labels."""
    outputs, targets = given.inputs["outputs"], given.inputs["targets"]
    yield
    found = function(list(outputs), list(targets))
    yield
    return found


@quietly
def ask_evaluate(function, given, device):
    """Four averages over a loader, of a network of no layers: its images are the logits."""
    loader = [(logits[:, :, None, None], target) for logits, target in zip(given.inputs["images"], given.inputs["targets"])]
    model = nn.Flatten()
    yield
    found = function(model, loader, device)
    yield
    return found


@quietly
def ask_step_time(function, given, device):
    """The mean of step times; after a reset; and in a process group."""
    times = given.options["times"]
    metric = function(device)
    if not isinstance(metric, torchmetrics().Metric):
        raise Unusable(f"it returned a {type(metric).__name__}; a metric of TorchMetrics is wanted, so that it can "
                       "be kept, saved and reset like the others.")

    def update() -> None:
        for time in times:
            metric.update(time)

    yield
    update()
    yield
    found = {"mean": metric.compute()}
    metric.update(2 * times[0])
    found["mean after another update"] = metric.compute()
    metric.reset()
    update()
    found["mean after a reset"] = metric.compute()
    metric.reset()
    with device_group(device):
        try:
            update()
            found["mean under DDP"] = metric.compute()
        except RuntimeError as error:
            if "No backend type" not in str(error):
                raise
            raise Unusable(
                f"its `compute` raised \"{error}\" under DDP. `compute` gathers the metric's state from all processes, and "
                "a process group for GPUs (NCCL's) cannot move a CPU tensor. Either each process keeps its own mean (an "
                "option of every metric), or the state lives on the GPU: then see that the update does not wait.") from error
    return found


# -- a process group ------------------------------------------------------------------------------

BACKENDS = {"cuda": "cuda:nccl", "vgpu": "vgpu:gloo", "cpu": "cpu:gloo"}


@contextmanager
def device_group(device: torch.device) -> Iterator[None]:
    """Inside, this process is a process group of its own, which serves ``device`` and no other, as NCCL serves CUDA and not
    the CPU. No network, no second process.

    Raises RuntimeError where a process group is open already.
    """
    if dist.is_initialized():
        raise RuntimeError("a process group is open in this Python process: call torch.distributed.destroy_process_group()")
    dist.init_process_group(BACKENDS[device.type], store=dist.HashStore(), rank=0, world_size=1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # barrier() remarks which device it takes
            yield
    finally:
        dist.destroy_process_group()
