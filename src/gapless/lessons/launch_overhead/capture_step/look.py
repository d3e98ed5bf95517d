"""Lesson 06: what the notebook shows for ``capture_step``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F

from ....course.exercise import full_size
from ....evidence.pictures.figure import new_figure
from ....measure.device import origin_of
from ....measure.profile import time_step
from ..stage import UNMEASURED
from .stage import make_network


def small_step(capture_step: Callable, device: torch.device, layers: int = 12, width: int = 64, rows: int = 32
               ) -> Callable[[], None]:
    """A step by ``capture_step`` of a network of so many layers, past the calls that may take their time."""
    weights = [torch.zeros(width, width, device=device) for _ in range(layers)]
    model = make_network(weights, 0.0, device)
    step = capture_step(model, torch.optim.Adam(model.parameters(), fused=True), F.cross_entropy)
    x, y = torch.zeros(rows, width, device=device), torch.zeros(rows, dtype=torch.int64, device=device)
    for _ in range(UNMEASURED):
        step(x, y)
    return lambda: step(x, y)


WIDTHS = (32, 128, 512, 2048, 4096)


def step_ms(capture_step: Callable, device: torch.device, widths: Sequence[int] = WIDTHS) -> list[float]:
    """What a step by ``capture_step`` takes, twelve linear layers of each width, 32 rows."""
    found = []
    for width in widths:
        with full_size(device):
            found.append(time_step(small_step(capture_step, device, width=width), warmup=1, steps=5, blocks=3,
                                   device=device).true_ms)
    return found


def draw_step_times(plain: Callable, captured: Callable, device: torch.device, widths: Sequence[int] = WIDTHS):
    """Times of a step over the width of the network, as it is and as one launch. Returns a figure. Raises ImportError
    without matplotlib."""
    times = {"launched one by one": step_ms(plain, device, widths), "one launch a step": step_ms(captured, device, widths)}
    place = origin_of(device)
    words = "; ".join(f"width {width}: " + ", ".join(f"{values[place]:.2f} ms {name}" for name, values in times.items())
                      for place, width in enumerate(widths))
    figure = new_figure(7.0, 3.4, f"Time of a step by the width of twelve linear layers ({place}). "
                                  f"{words}.")
    axes = figure.subplots()
    for (name, values), color, marker, style in zip(times.items(), ("#d9541e", "#3b7dc4"), "os", ("--", "-")):
        axes.loglog(widths, values, style, color=color, marker=marker, label=name)
    axes.set_xticks(widths, [str(width) for width in widths])
    axes.minorticks_off()
    axes.set_xlabel("width of the layers")
    axes.set_ylabel(f"ms a step ({place})")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return figure
