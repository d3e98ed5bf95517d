"""Lesson 06: a training with debug aids, to be looked at."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext

import numpy as np
import torch

from .... import vgpu
from ....course.answers import put
from ....course.headline import MarkdownText
from ....evidence.pictures.figure import new_figure
from ....measure.device import origin_of
from ....measure.profile import time_step
from .cases import CHEAP, COSTLY, NEEDED, training_case
from .stage import Run, Training, training_of


def training_to_look_at(device: torch.device) -> Training:
    """One with seven aids, the same each time; the check draws others."""
    kinds = ["anomaly_mode", "anomaly_mode", *COSTLY[-1:], "statistics_read", CHEAP[0], *NEEDED[:2]]
    return training_of(put(training_case(np.random.default_rng(6), "seven aids", kinds), device)[0])


def own_aids_table(device: torch.device) -> MarkdownText:
    """What PyTorch's own debug aids make of a step of that training without others: its time."""
    def stepped(around, after=lambda: None):
        take_step = training_to_look_at(device).steps([])

        def step():
            take_step()
            after()

        with around():
            return time_step(step, device=device).true_ms

    numbers = torch.ones(4, dtype=torch.float64, device=device, requires_grad=True)
    grad = torch.autograd
    rows = {"none": (nullcontext,),
            "`set_detect_anomaly(True)`": (lambda: grad.set_detect_anomaly(True),),
            "`set_detect_anomaly(True, check_nan=False)`": (lambda: grad.set_detect_anomaly(True, check_nan=False),),
            "`autograd.profiler.profile()`": (grad.profiler.profile,),
            "`autograd.profiler.emit_nvtx()`": (grad.profiler.emit_nvtx,),
            "`gradcheck` of `tanh`, 4 numbers": (nullcontext, lambda: grad.gradcheck(torch.tanh, numbers))}
    if device.type == "vgpu":
        rows["`CUDA_LAUNCH_BLOCKING=1`"] = (vgpu.launch_blocking,)
    times = {name: stepped(*how) for name, how in rows.items()}
    place = origin_of(device)
    lines = [f"| left on | ms a step ({place}) | times |", "|---|---:|---:|"]
    lines += [f"| {name} | {ms:.2f} | {ms / times['none']:.2f} |" for name, ms in times.items()]
    return MarkdownText("\n".join(lines))


def _mean_ms(run: Run) -> float:
    return sum(run.step_ms[1:]) / len(run.step_ms[1:])


def draw_aids(training: Training, off: Collection[str]):
    """What a step takes with each aid alone, and what it takes less when all but that one are on; which are needed for the
    log, and which are ``off``. Returns a figure. Raises ImportError without matplotlib."""
    bare, full = training.run([]), training.run(training.aids)
    rows = []
    for aid in training.aids:
        without = training.run([other for other in training.aids if other != aid])
        rows.append((aid, _mean_ms(training.run([aid])) - _mean_ms(bare), _mean_ms(full) - _mean_ms(without),
                     without.log != full.log))
    words = ", ".join(f"{aid} {alone:.2f} and {left_out:.2f} ms{', needed' if needed else ''}{', off' if aid in off else ''}"
                      for aid, alone, left_out, needed in rows)
    figure = new_figure(8.0, 0.55 * len(rows) + 1.0, f"Bars of what each aid costs in a step of {_mean_ms(bare):.2f} ms, "
                                                     f"alone and as the only one that is turned off: {words}.")
    axes = figure.subplots()
    places = np.arange(len(rows))
    axes.barh(places - 0.2, [row[1] for row in rows], 0.38, color="#3b7dc4", label="added: only this aid on")
    axes.barh(places + 0.2, [row[2] for row in rows], 0.38, color="#d9a441", hatch="////", label="saved: only this aid off")
    axes.axvline(0.1 * _mean_ms(bare), color="#444444", linestyle=":", label="10 % of a step")
    axes.set_yticks(places, [f"{aid}{' (needed)' if needed else ''}{': off' if aid in off else ''}"
                             for aid, _, _, needed in rows])
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(f"ms a step (simulated); with no aid it takes {_mean_ms(bare):.2f} ms")
    axes.legend(frameon=False, fontsize=9)
    return figure
