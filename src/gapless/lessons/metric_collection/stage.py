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
    found |= {"mean after another update": metric.compute(), "number of updates": metric.update_count}
    one = torch.ones((), dtype=metric.dtype, device=device)
    metric.update(one, one * 50)  # somebody else's: the sum of the weights has to be right too
    found["mean after 50 more images of loss 1"] = metric.compute()
    metric.reset()
    other = mean_metric()
    update(metric, other)
    return {**found, "means of two metrics, updated in turn after a reset": [metric.compute(), other.compute()]}


@quietly
def ask_suppress(function, given, device):
    """What metrics of the decorated classes compute: once, by `forward`, cloned, and after a reset. Of NaN nothing but
    whether the values that were given are left alone."""
    options = given.options
    kinds = {"nan_strategy": options["strategy"]} if "strategy" in options else {}
    metrics = [_decorated(function, name)(**kinds, sync_on_compute=False).to(device) for name in options["metrics"]]
    if "dtype" in options:
        metrics = [metric.set_dtype(getattr(torch, options["dtype"])) for metric in metrics]
    rows = options.get("rows") or [list(row) for row in zip(*(tensor.unbind() for tensor in given.inputs.values()))]

    def update(targets, by=lambda metric: metric.update) -> list:
        return [[by(target)(*row[:2 if name == "MeanMetric" else 1]) for row in rows]  # the others take no weight
                for name, target in zip(options["metrics"], targets)]

    yield
    try:
        update(metrics)
    except (AttributeError, TypeError, ValueError) as error:
        raise Unusable(f"its update raised {describe_error(error, 'suppress_nan_check')}. {_no_update(error)}") from error
    yield
    if options.get("nan"):
        return "what a NaN does is up to you"
    values = [metric.compute() for metric in metrics]
    copies = [metric.clone() for metric in metrics]
    update(copies)
    found = {"value": values, "value of a clone, updated again": [copy.compute() for copy in copies]}
    found["dtype"] = [str(getattr(value, "dtype", "")) for value in values]
    for metric in metrics:
        metric.reset()
    found["values of calling it"] = update(metrics, by=lambda metric: metric)
    return {**found, "value after a reset": [metric.compute() for metric in metrics],
            "device": all(metric.device.type == device.type for metric in metrics)}


def _no_update(error: Exception) -> str:
    """What to do about an aggregator's update that failed."""
    if "has no attribute" in str(error) and any(kind in str(error) for kind in ("'float'", "'int'", "'NoneType'")):
        return ("The value may be a tensor or a Python number, and the weight a tensor or None: make tensors of them first "
                "(`torch.as_tensor`, `torch.ones_like`), then return both.")
    return ("The method that looks for NaN takes `(self, x, weight=None)`, where `SumMetric` and the like give no weight, "
            "and has to return two tensors, the values and the weights.")


def _decorated(function, name: str) -> type:
    """The learner's version of an aggregator class. Raises Unusable."""
    base = getattr(torchmetrics(), name)
    library = {cls: _parts(cls) for cls in base.__mro__[:2]}

    class Aggregator(base):
        """What the learner's function makes another class of."""

    own = _parts(Aggregator)
    decorated = function(Aggregator)
    if not isinstance(decorated, type):
        raise Unusable(f"it returned a {type(decorated).__name__}; a class is wanted: one that inherits from the one it "
                       "was given.")
    changed = [cls for cls, before in library.items() if _parts(cls) != before]
    for cls in changed:
        _put_back(cls, library[cls])
    if changed or _parts(Aggregator) != own:
        which = f"TorchMetrics' own class {changed[0].__name__}" if changed else "the class that it was given"
        raise Unusable(f"it changed {which}. After `suppress_nan_check(MeanMetric)` the library's own `MeanMetric` must "
                       "still check, as everybody else relies on it: return a new class, which inherits from MetricClass.")
    if not issubclass(decorated, base):
        raise Unusable(f"the class does not inherit from the one that was given ({name}): write "
                       "`class …(MetricClass)`, not the name of one of them.")
    return decorated


def _parts(cls: type) -> dict:
    """What somebody has written into a class; Python itself keeps notes in it too."""
    return {name: value for name, value in vars(cls).items() if name == "__init__" or not name.startswith(("__", "_abc_"))}


def _put_back(cls: type, before: dict) -> None:
    for name in {*_parts(cls), *before}:
        if vars(cls).get(name) is not before.get(name):
            setattr(cls, name, before[name]) if name in before else delattr(cls, name)


@quietly
def ask_collect(function, given, device):
    """Four averages over batches of logits and labels; after a call on other batches, unless it is timed."""
    outputs, targets = given.inputs["outputs"], given.inputs["targets"]
    if given.options.get("called_before"):
        function([output.flip(-1) for output in outputs[:1]], targets[:1])
    own = list(outputs), list(targets)
    yield
    found = function(*own)
    yield
    if (len(own[0]), len(own[1])) != (len(outputs), len(targets)):
        raise Unusable("it has taken batches out of the lists that it was given, or put some in: somebody may use them "
                       "afterwards. Leave the lists as they are.")
    return found


class _Loader:
    """As much of a DataLoader as an evaluation needs: its length, and its batches in order, any number of times."""

    def __init__(self, batches: list):
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator:
        return iter(self._batches)


@quietly
def ask_evaluate(function, given, device):
    """Four averages over a loader, of a network of no layers: its images are the logits. After a call on another loader,
    unless it is timed."""
    batches = [(logits[:, :, None, None], target) for logits, target in zip(given.inputs["images"], given.inputs["targets"])]
    model = nn.Flatten()
    if given.options.get("called_before"):
        function(model, _Loader([(images.flip(1), target) for images, target in batches[:1]]), device)
    yield
    found = function(model, _Loader(batches), device)
    yield
    return found


@quietly
def ask_step_time(function, given, device):
    """The mean of step times: after a reset, of a copy, saved and loaded, moved, and in a process group."""
    times = given.options["times"]
    metric = function(device)
    if not isinstance(metric, torchmetrics().Metric):
        raise Unusable(f"it returned a {type(metric).__name__}; a metric of TorchMetrics is wanted, so that it can "
                       "be kept, saved and reset like the others.")

    def update(which) -> None:
        for time in times:
            which.update(time)

    yield
    update(metric)
    yield
    found = {"mean": metric.compute()}
    if given.options.get("only_timed"):
        return found
    metric.update(2 * times[0])
    found["mean after another update"] = metric.compute()
    other = function(device)
    other.update(3 * times[0])
    found["mean beside a second metric"] = metric.compute()
    copy = metric.clone()
    copy.update(5 * times[0])
    found["means of the metric and of a clone, updated once more"] = [metric.compute(), copy.compute()]
    saved, loaded = function(device), function(device)
    for each in (saved, loaded):
        each.persistent(True)
    update(saved)
    loaded.load_state_dict(saved.state_dict(), strict=False)
    try:
        found["mean of a new metric, loaded with load_state_dict"] = loaded.compute()
    except Exception as error:
        raise Unusable(f"a new metric that has loaded its `state_dict` raised {describe_error(error, 'step_time_metric')}. "
                       "What is saved, moved and gathered is the metric's state: what `add_state` has added, no list or "
                       "number of your own.") from error
    found["mean after .to(\"cpu\")"] = metric.clone().to("cpu").compute()
    metric.reset()
    update(metric)
    found["mean after a reset"] = metric.compute()
    metric.reset()
    with device_group(device):
        try:
            update(metric)
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
