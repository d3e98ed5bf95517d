"""Lesson 10: a run of a program to be looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import torch

from ... import vgpu
from ...course.exercise import full_size
from ...evidence.report import StepReport
from ...evidence.views import kernels_by_line
from ...measure.device import device_name
from ...measure.profile import profile, time_step
from .lesson import PROGRAMS

_LINES = 14  # of a table


def run_of(train: Callable, device: torch.device, *, records: int | None = None, **settings) -> Callable[[], object]:
    """A run of ``train`` on its program's inputs at full size, or on the first ``records`` of them; ``settings`` beside the
    usual. Raises ValueError where it takes the inputs of no program."""
    program = next((each for each in PROGRAMS.values() if each.is_of(train)), None)
    if program is None:
        raise ValueError("train takes other arguments than the program that was handed out: keep them as they were")
    size, usual = program.full
    inputs = {name: torch.from_numpy(each[:records])
              for name, each in program.inputs(np.random.default_rng(0), size).items()}
    return lambda: train(*inputs.values(), device, **{**usual, **settings})


def look(train: Callable, device: torch.device, **how) -> StepReport:
    """Print what a run takes and which lines wait and launch most; the report of its profile. ``how`` as for
    :func:`run_of`."""
    run = run_of(train, device, **how)
    with full_size(device):
        if device.type == "vgpu":
            vgpu.timeline().reset()
        ms = time_step(run, warmup=0, steps=1, blocks=1, device=device, at_once=True).true_ms
        report = StepReport.from_trace(profile(run, steps=1, warmup=0, device=device))
    kind = "simulated" if report.simulated else "measured"
    print(f"a run takes {ms:.1f} ms ({kind}, {device_name(device)}); the device works {report.device_busy_ms:.1f} of them")
    print(f"{report.bus_bytes / 1e6:.1f} MB go over the bus; {report.peak_memory_bytes / 2**20:.0f} MiB are held at most; "
          f"{report.kernels:.0f} kernels; {len(report.syncs_in_steps)} waits")
    waits, waited_ms = Counter(), Counter()
    for sync in report.syncs_in_steps:
        waits[sync.location] += 1
        waited_ms[sync.location] += sync.wait_ms
    print("\n   waits        ms  at")
    for line, count in waits.most_common(_LINES):
        print(f"{count:8}{waited_ms[line]:10.2f}  {line or 'no line is known'}")
    print("\n kernels  launched at")
    for line, count in sorted(kernels_by_line(report.trace).items(), key=lambda item: -item[1])[:_LINES]:
        print(f"{count:8}  {line or 'no line is known'}")
    return report
