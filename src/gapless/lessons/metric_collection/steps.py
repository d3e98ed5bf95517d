"""Lesson 03: one exercise at full size. The network runs without values on the virtual GPU; what the learner's function is
given has values there too.

These values are drawn by chance before each step on the virtual GPU, and written into the same tensors: neither a number
known beforehand nor one remembered from an earlier step is right. No simulated time depends on them. On a real GPU, where
writing would be noticed, they stay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from ...course.known_values import peek, unnoticed, with_values, write
from ...course.plain import Unusable
from .cases import check_where, logits_and_labels, on_device
from .functions import IGNORE, collect, evaluate, torchmetrics
from .workload import ARTICLE_SIZE, TimedNetwork, make_images


def queued_forward(device: torch.device) -> Callable[[], None]:
    """Queues ResNet-18's forward pass at the article's size, so that a wait has something to wait for."""
    network = TimedNetwork(device, [None])
    images = make_images(device)
    return lambda: network(images)


def _see(what: str, found: float, wanted: float) -> None:
    """At full size too the numbers have to be right: on the virtual GPU they are read without its clock noticing."""
    if not abs(found - wanted) <= 1e-4 * max(1.0, abs(wanted)):
        raise ValueError(f"the {what} is {found:.6g} at full size, and should be {wanted:.6g}")


def chance() -> np.random.Generator:
    """Numbers that nobody can know beforehand."""
    return np.random.default_rng()


def update_loss_step(function, device):
    forward, rng, total = queued_forward(device), chance(), {"loss": 0.0, "weight": 0}
    with with_values(device):
        metric = torchmetrics().MeanMetric().to(device)
        loss = torch.tensor(6.5, device=device)

    def step():
        batch = int(rng.integers(1, ARTICLE_SIZE.batch + 1))
        if device.type == "vgpu":
            write(loss, rng.uniform(0.5, 7.0))
            total["loss"] += peek(loss) * batch
            total["weight"] += batch
        forward()
        with with_values(device):
            function(metric, loss, batch)
        if device.type == "vgpu":
            _see("weighted sum of the losses", peek(metric.mean_value), total["loss"])
            _see("sum of the weights", peek(metric.weight), total["weight"])

    return step


def suppress_step(function, device):
    forward, rng, total = queued_forward(device), chance(), {"weighted": 0.0, "sum": 0.0, "largest": 0.0}
    package = torchmetrics()

    def metric(base: type):
        return function(type(base.__name__, (base,), {}))().to(device)

    with with_values(device):
        mean, added, largest = metric(package.MeanMetric), metric(package.SumMetric), metric(package.MaxMetric)
        loss, weight = torch.tensor(6.5, device=device), torch.tensor(float(ARTICLE_SIZE.batch), device=device)

    def step():
        if device.type == "vgpu":
            write(loss, rng.uniform(0.5, 7.0))
            write(weight, float(rng.integers(1, ARTICLE_SIZE.batch + 1)))
            total["weighted"] += peek(loss) * peek(weight)
            total["sum"] += peek(loss)
            total["largest"] = max(total["largest"], peek(loss))
        forward()
        with with_values(device):
            mean.update(loss, weight)
            added.update(loss)
            largest.update(loss)
        if device.type == "vgpu":
            _see("weighted sum", peek(mean.mean_value), total["weighted"])
            _see("sum", peek(added.sum_value), total["sum"])
            _see("maximum", peek(largest.max_value), total["largest"])

    return step


BATCHES = 6  # of a call of `collect` at full size


class _Batches:
    """``count`` batches at full size: lists of logits N×C and of labels N, on the device, some of them ``ignored``.

    ``shuffle()`` gives the same tensors other contents: in each batch it deals out the predictions anew among a part of the
    labels that count. How many there are of each stays, so that nothing changes on which an operator's time depends.
    """

    def __init__(self, count: int, device: torch.device, ignored: float = 0.0):
        rng = np.random.default_rng(0)
        self._logits, labels = logits_and_labels(rng, (count, ARTICLE_SIZE.batch))
        self._labels = np.where(rng.random(labels.shape) < ignored, IGNORE, labels)
        self._rng = chance()
        with with_values(device):
            self.outputs, self.targets = on_device(device, self._logits), on_device(device, self._labels)

    def shuffle(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The new contents, on the CPU."""
        dealt = self._logits.copy()
        for logits, labels, new in zip(self._logits, self._labels, dealt):
            counted = np.flatnonzero(labels != IGNORE)
            some = counted[self._rng.random(len(counted)) < self._rng.random()]
            new[some] = logits[self._rng.permutation(some)]
        for output, new in zip(self.outputs, dealt):
            write(output, new)
        cpu = torch.device("cpu")
        return on_device(cpu, dealt), on_device(cpu, self._labels)


def _see_averages(found, wanted: dict, device: torch.device) -> None:
    try:
        check_where(found, device)
    except Unusable as error:
        raise ValueError(str(error)) from error
    for name, value in wanted.items():
        _see(name, peek(found[name]), peek(value))


def collect_step(function, device):
    batches = _Batches(BATCHES, device)

    def step():
        wanted = collect(*batches.shuffle()) if device.type == "vgpu" else {}
        with with_values(device):
            found = function(list(batches.outputs), list(batches.targets))
        _see_averages(found, wanted, device)

    return step


def evaluate_step(function, device, count: int = 3):
    batches, images = _Batches(count, device, ignored=0.2), make_images(device)
    with with_values(device):
        model = TimedNetwork(device, batches.outputs)
        loader = [(images, target) for target in batches.targets]

    def step():
        wanted = {}
        if device.type == "vgpu":
            wanted = evaluate(nn.Identity(), list(zip(*batches.shuffle())), torch.device("cpu"))
        with with_values(device):
            found = function(model, list(loader), device)
        _see_averages(found, wanted, device)

    return step


def step_time_step(function, device):
    forward, rng, times = queued_forward(device), chance(), []
    with with_values(device):
        metric = function(device)

    def step():
        forward()
        times.append(float(rng.uniform(60, 110)))
        with with_values(device):
            metric.update(times[-1])
            if device.type == "vgpu":
                with unnoticed(device):
                    _see("mean step time", float(metric.compute()), float(np.mean(times)))

    return step
