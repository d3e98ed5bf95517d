"""Lesson 00: what the notebook shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ...evidence.pictures.figure import new_figure
from .predict_step_ms.stage import SMALL, Operator, Rates, product_of, sum_of


def step_of(program: list[Operator], device: torch.device) -> Callable[[], None]:
    """The program as a step on ``device``."""
    data = [[torch.empty(shape, device=device) for shape in operator.shapes] for operator in program]

    def step():
        for operator, tensors in zip(program, data):
            run = {"matmul": torch.mm, "add": torch.add, "copy": torch.clone}[operator.name]
            for _ in range(operator.times):
                run(*tensors)

    return step


def example_program(rates: Rates) -> list[Operator]:
    """A step with something of everything, sized for the card."""
    return [product_of(2.0, 2, rates), sum_of(1.0, 3, rates), Operator("add", SMALL, 100)]


def draw_host_steps(host_ms: Sequence[float], true_ms: float, device_text: str):
    """A bar for each step: how long the host was busy with it, in ms. A dashed line marks a step's time in a long run.

    Returns the figure, which a notebook displays with an alternative text. Raises ImportError without matplotlib.
    """
    full = next((i for i, ms in enumerate(host_ms) if ms > 0.5 * true_ms), None)
    story = (f"From step {full} on, the host works at the device's pace." if full is not None
             else "The host never has to wait for room in the queue.")
    alt = (f"Bar chart of {len(host_ms)} steps on {device_text}: step 0 keeps the host for {host_ms[0]:.2f} ms, the last "
           f"step for {host_ms[-1]:.2f} ms; a step truly takes {true_ms:.2f} ms. {story}")
    figure = new_figure(8.0, 3.0, alt)
    axes = figure.subplots()
    axes.bar(range(len(host_ms)), host_ms, color="#7f8b9777", edgecolor="#7f8b97", label="the host's time")
    axes.axhline(true_ms, color="#d9541e", linestyle="--", linewidth=1.2, label=f"the true step time, {true_ms:.1f} ms")
    axes.set_xlabel("step")
    axes.set_ylabel("ms")
    axes.set_title(f"How long each step keeps the host – {device_text}", loc="left", fontsize=10.5, fontweight="bold")
    axes.legend(frameon=False, loc="center left")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_two_workers(launch_us: float, kernel_us: float, kernels: int = 20):
    """Host and device on one time axis: ``kernels`` kernels of ``kernel_us`` each, a launch takes the host ``launch_us``,
    and nobody waits for a result. Computed, not run.

    Returns the figure, as :func:`draw_host_steps`.
    """
    launched = [launch_us * (number + 1) for number in range(kernels)]
    starts, end = [], 0.0
    for ready in launched:
        starts.append(max(ready, end))
        end = starts[-1] + kernel_us
    idle_us = end - kernels * kernel_us
    slower = "the host" if kernel_us < launch_us else "the device"
    title = (f"{kernels} kernels of {kernel_us:g} µs, {launch_us:g} µs a launch: {slower} sets the pace; "
             f"the device idles {idle_us:g} of {end:g} µs")
    figure = new_figure(9.0, 1.9, f"Two rows of blocks, launches on the host and kernels on the device. {title}.")
    axes = figure.subplots()
    axes.broken_barh([(at - launch_us, launch_us) for at in launched], (1.1, 0.8), facecolor="#7f8b9777",
                     edgecolor="#7f8b97")
    axes.broken_barh([(at, 0.97 * kernel_us) for at in starts], (0.1, 0.8), facecolor="#3b7dc4")
    axes.set_yticks([1.5, 0.5], ["host", "device"])
    axes.set_xlim(0, end)
    axes.set_xlabel("µs")
    axes.set_title(title, loc="left", fontsize=9.5)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure
