"""Lesson 03: one exercise at full size. The network runs without values on the virtual GPU; what the learner's function is
given has values there too."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from .cases import logits_and_labels, on_device
from .functions import IGNORE, collect, evaluate, torchmetrics
from .workload import ARTICLE_SIZE, TimedNetwork, make_images, peek, with_values


def queued_forward(device: torch.device) -> Callable[[], None]:
    """Queues ResNet-18's forward pass at the article's size, so that a wait has something to wait for."""
    network = TimedNetwork(device, [None])
    images = make_images(device)
    return lambda: network(images)


def _see(what: str, found: float, wanted: float) -> None:
    """At full size too the numbers have to be right: on the virtual GPU they are read without its clock noticing."""
    if not abs(found - wanted) <= 1e-3 * max(1.0, abs(wanted)):
        raise ValueError(f"the {what} is {found:.6g} at full size, and should be {wanted:.6g}")


def update_loss_step(function, device):
    forward, state = queued_forward(device), {"total": 0.0, "weight": 0}
    with with_values(device):
        metric = torchmetrics().MeanMetric().to(device)
        losses = [torch.tensor(value, device=device) for value in (6.5, 6.25, 7.0)]

    def step():
        forward()
        number = metric.update_count % len(losses)
        with with_values(device):
            function(metric, losses[number], ARTICLE_SIZE.batch)
        state["total"] += (6.5, 6.25, 7.0)[number] * ARTICLE_SIZE.batch
        state["weight"] += ARTICLE_SIZE.batch
        if device.type == "vgpu":
            _see("weighted sum of the losses", peek(metric.mean_value), state["total"])
            _see("sum of the weights", peek(metric.weight), state["weight"])

    return step


def suppress_step(function, device):
    forward, total = queued_forward(device), {"mean": 0.0, "sum": 0.0, "steps": 0}
    package = torchmetrics()

    def metric(base: type):
        return function(type(base.__name__, (base,), {}))().to(device)

    with with_values(device):
        mean, added, largest = metric(package.MeanMetric), metric(package.SumMetric), metric(package.MaxMetric)
        losses = [torch.tensor(value, device=device) for value in (6.5, 6.25, 7.0)]
        weight = torch.tensor(float(ARTICLE_SIZE.batch), device=device)

    def step():
        forward()
        number = total["steps"] % len(losses)
        with with_values(device):
            mean.update(losses[number], weight)
            added.update(losses[number])
            largest.update(losses[number])
        total["steps"] += 1
        total["sum"] += (6.5, 6.25, 7.0)[number]
        if device.type == "vgpu":
            _see("weighted sum", peek(mean.mean_value), total["sum"] * ARTICLE_SIZE.batch)
            _see("sum", peek(added.sum_value), total["sum"])
            _see("maximum", peek(largest.max_value), 7.0 if total["steps"] >= len(losses) else 6.5)

    return step


BATCHES = 6  # of a call of `collect` at full size


def _full_size_batches(count: int, ignored: float = 0.0) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    rng = np.random.default_rng(0)
    logits, labels = logits_and_labels(rng, (count, ARTICLE_SIZE.batch))
    labels = np.where(rng.random(labels.shape) < ignored, IGNORE, labels)
    cpu = torch.device("cpu")
    return on_device(cpu, logits), on_device(cpu, labels)


def _see_averages(found, wanted: dict) -> None:
    for name, value in wanted.items():
        _see(name, peek(found[name]), peek(value))


def collect_step(function, device):
    outputs, targets = _full_size_batches(BATCHES)
    wanted = collect(outputs, targets)
    with with_values(device):
        outputs, targets = [output.to(device) for output in outputs], [target.to(device) for target in targets]

    def step():
        with with_values(device):
            found = function(list(outputs), list(targets))
        if device.type == "vgpu":
            _see_averages(found, wanted)

    return step


def evaluate_step(function, device, count: int = 3):
    logits, targets = _full_size_batches(count, ignored=0.2)
    wanted = evaluate(nn.Identity(), list(zip(logits, targets)), torch.device("cpu"))
    images = make_images(device)
    with with_values(device):
        model = TimedNetwork(device, [answer.to(device) for answer in logits])
        loader = [(images, target.to(device)) for target in targets]

    def step():
        with with_values(device):
            found = function(model, list(loader), device)
        if device.type == "vgpu":
            _see_averages(found, wanted)

    return step


def step_time_step(function, device):
    forward = queued_forward(device)
    with with_values(device):
        metric = function(device)

    def step():
        forward()
        with with_values(device):
            metric.update(81.5)

    return step
