"""Lesson 10: a run of a program to be looked at."""

from __future__ import annotations

import linecache
import re
from collections import Counter
from collections.abc import Callable

import numpy as np
import torch

from ... import vgpu
from ...course.exercise import full_size
from ...evidence.report import StepReport
from ...evidence.views import kernels_by_line
from ...marker import exercise_name, file_name
from ...measure.device import origin_of
from ...measure.profile import profile, time_step
from .lesson import PROGRAMS

_PLACE = re.compile(r'cell "(.*?)", line (\d+)')


def run_of(train: Callable, device: torch.device, *, records: int | None = None, **settings) -> Callable[[], object]:
    "train takes other arguments than the program that you got: keep those"
    program = next((each for each in PROGRAMS.values() if each.is_of(train)), None)
    if program is None:
        raise ValueError("train takes other arguments than the program that was handed out: keep them as they were")
    size, usual = program.full
    inputs = {name: torch.from_numpy(each[:records])
              for name, each in program.inputs(np.random.default_rng(0), size).items()}
    return lambda: train(*inputs.values(), device, **{**usual, **settings})


def look(train: Callable, device: torch.device, *, lines: int = 14, **how) -> StepReport:
    """Print what a run takes and which ``lines`` wait and launch most; the report of its profile. ``how`` as for
    :func:`run_of`."""
    run = run_of(train, device, **how)
    with full_size(device):
        if device.type == "vgpu":
            vgpu.timeline().reset()
        ms = time_step(run, warmup=0, steps=1, blocks=1, device=device, at_once=True).true_ms
        report = StepReport.from_trace(profile(run, steps=1, warmup=0, device=device))
    print(f"a run takes {ms:.1f} ms ({origin_of(device)}); the device works {report.device_busy_ms:.1f} of them")
    print(f"{report.bus_bytes / 1e6:.1f} MB go over the bus; {report.peak_memory_bytes / 2**20:.0f} MiB are held at most; "
          f"{report.kernels:.0f} kernels; {len(report.syncs_in_steps)} waits")
    waits, waited_ms = Counter(), Counter()
    for sync in report.syncs_in_steps:
        waits[sync.location] += 1
        waited_ms[sync.location] += sync.wait_ms
    code = _code_of(train)
    print("\n   waits        ms  at")
    _print_rows([(f"{count:8}{waited_ms[line]:10.2f}", line) for line, count in waits.most_common()], lines, code)
    print("\n kernels  launched at")
    by_count = sorted(kernels_by_line(report.trace).items(), key=lambda item: -item[1])
    _print_rows([(f"{count:8}", line) for line, count in by_count], lines, code)
    return report


def _print_rows(rows: list[tuple[str, str | None]], lines: int, code: dict[str, list[str]]) -> None:
    """The first ``lines`` of them, each with its place and the code that stands there."""
    for numbers, place in rows[:lines]:
        print(f"{numbers}  {place or 'no line is known':52} {_text_at(place, code):.60}".rstrip())
    if len(rows) > lines:
        print(f"{len(rows) - lines:8} lines more: look(train, device, lines={len(rows)}) shows them")


def _text_at(place: str | None, code: dict[str, list[str]]) -> str:
    found = _PLACE.match(place or "")
    of_cell = code.get(found[1], []) if found else []
    return of_cell[int(found[2]) - 1].strip() if found and int(found[2]) <= len(of_cell) else ""


def _code_of(train: Callable) -> dict[str, list[str]]:
    """The lines of each cell of the program, by the name that a place has."""
    things = [*train.__globals__.values()]
    things += [each for thing in things if isinstance(thing, type) for each in vars(thing).values()]
    files = {thing.__code__.co_filename for thing in things if hasattr(thing, "__code__")}
    cells = [linecache.getlines(file) for file in files]
    return {name: lines for lines in cells if (name := file_name("".join(lines)) or exercise_name("".join(lines)))}
