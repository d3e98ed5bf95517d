"""Lesson 06: what a part of the program's step costs by itself, to be looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from ...course.exercise import full_size
from ...evidence.pictures.figure import new_figure
from ...evidence.report import StepReport
from ...measure.device import origin_of
from ...measure.profile import profile, time_step
from .all_heads import slow
from .workload import BATCH, DECAY, MAX_NORM, TOKENS, WIDTH, Network

Part = Callable[[torch.device], Callable[[], None]]


@dataclass(frozen=True)
class Cost:
    """Of one call: ms until it is done, kernels, waits, and ms for which the device works."""

    ms: float
    kernels: float
    waits: float
    busy_ms: float


def cost_of(part: Part, device: torch.device) -> Cost:
    """At full size."""
    with full_size(device):
        step = part(device)
        ms = time_step(step, steps=5, blocks=3, device=device).true_ms
        report = StepReport.from_trace(profile(step, steps=2, device=device))
    return Cost(ms, report.kernels, report.syncs_per_step, report.device_busy_ms)


def _parameters(device: torch.device) -> list[nn.Parameter]:
    """The program's, each with a gradient."""
    parameters = list(Network(slow.all_heads).to(device).parameters())
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    return parameters


def clearing(clear_grads: Callable) -> Part:
    """Gradients cleared, then a forward and backward pass."""
    def part(device: torch.device) -> Callable[[], None]:
        network = Network(slow.all_heads).to(device)
        parameters, x = list(network.parameters()), torch.randn(BATCH, TOKENS, WIDTH, device=device)

        def step():
            clear_grads(parameters)
            network(x).sum().backward()

        return step

    return part


def averaging(update_average: Callable) -> Part:
    def part(device: torch.device) -> Callable[[], None]:
        parameters = _parameters(device)
        averages = [parameter.detach().clone() for parameter in parameters]
        return lambda: update_average(averages, parameters, DECAY)

    return part


def clipping(clip: Callable) -> Part:
    def part(device: torch.device) -> Callable[[], None]:
        parameters = _parameters(device)

        def step():
            clip(parameters, MAX_NORM)

        return step

    return part


def stepping(make_optimizer: Callable) -> Part:
    """A step of a GradScaler."""
    def part(device: torch.device) -> Callable[[], None]:
        parameters = _parameters(device)
        optimizer, scaler = make_optimizer(parameters), torch.amp.GradScaler(device.type)
        scaler.scale(torch.zeros((), device=device))

        def step():
            scaler.step(optimizer)
            scaler.update()

        return step

    return part


def _count(number: float, what: str) -> str:
    return f"{number:g} {what}{'' if number == 1 else 's'}"


def draw_costs(device: torch.device, parts: dict[str, Part]):
    """A bar for each part, its name → what it does. Returns a figure. Raises ImportError without matplotlib."""
    found = {name: cost_of(part, device) for name, part in parts.items()}
    place = origin_of(device)
    words = {name: f"{cost.ms:.2f} ms, {_count(cost.kernels, 'kernel')}, {_count(cost.waits, 'wait')}, the device works "
                   f"{cost.busy_ms:.2f} ms" for name, cost in found.items()}
    figure = new_figure(8.0, 0.9 + 0.45 * len(found), f"Bar chart, ms a call, {place}. "
                        + "; ".join(f"{name}: {text}" for name, text in words.items()) + ".")
    axes = figure.subplots()
    for row, (name, cost) in enumerate(found.items()):
        axes.barh(row, cost.ms, color="#7f8b97" if row == 0 else "#3b7dc4", hatch="" if row == 0 else "//",
                  edgecolor="white", height=0.6)
        axes.text(cost.ms, row, f"  {words[name]}", va="center", fontsize=9)
    axes.set_yticks(range(len(found)), list(found))
    axes.invert_yaxis()
    axes.set_xlim(0, 2.6 * max(cost.ms for cost in found.values()))
    axes.set_xticks([])
    axes.set_title(f"ms a call ({place})", loc="left", fontsize=10.5, fontweight="bold")
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    return figure
