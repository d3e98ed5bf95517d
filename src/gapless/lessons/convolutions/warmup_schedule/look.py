"""Lesson 05: what the notebook shows for ``warmup_schedule``."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from ....evidence.pictures.figure import new_figure


def draw_schedule(schedules: dict[str, Callable], factor: float = 8.0, warmup: int = 20, total: int = 120):
    """The learning rates that schedulers give: its name → function of (optimizer, factor, warmup, total). Returns a figure.
    Raises ImportError without matplotlib."""
    rates: dict[str, list[float]] = {}
    for name, make in schedules.items():
        optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
        schedule = make(optimizer, factor, warmup, total)
        row = rates[name] = []
        for _ in range(total + 1):
            row.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
    words = "; ".join(f"{name}: {row[0]:.2g} at step 0, {row[warmup]:.2g} at step {warmup}, {row[total]:.2g} at step {total}"
                      for name, row in rates.items())
    figure = new_figure(8.0, 2.6, f"Line chart of learning rates. {words}.")
    axes = figure.subplots()
    for (name, row), style, color in zip(rates.items(), ("--", "-"), ("#7f8b97", "#3b7dc4")):
        axes.plot(row, style, color=color, label=name)
    axes.set_xlabel("step")
    axes.set_title("learning rate", loc="left", fontsize=10.5, fontweight="bold")
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
