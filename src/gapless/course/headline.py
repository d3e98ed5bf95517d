"""A lesson's headline: its programs from the slow to the fixed one, measured at full size beside the article's figures."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from .. import vgpu
from ..evidence.report import StepReport
from ..evidence.traces.trace import Trace
from ..marker import exercise_name, file_name, joined
from ..measure.device import device_name
from ..measure.profile import profile, time_step
from ..words import origin
from .exercise import Lesson, Program, full_size
from .notebooks.cells import load_function

BLOCK_MS = 400  # of a block of steps on a real GPU


@dataclass(frozen=True)
class Figures:
    """One program's figures; times in ms a step. ``host_step_ms``, ``device_step_ms`` and ``device_busy_ms`` are from a
    trace of three steps, ``true_step_ms`` from a long run without a profiler. ``sync_ops``: what the first step waits
    in, of a whole run each once. ``article``: what the article reports of it, in words. ``samples``: how many samples a
    step works on, where programs differ in that. ``bus_bytes``: what a step copies between host and device.
    ``largest_batch``: the most samples that fit, where somebody has looked."""

    name: str
    size: str
    syncs: float
    sync_ops: list[str]
    host_step_ms: float
    device_step_ms: float
    device_busy_ms: float
    true_step_ms: float
    peak_memory_bytes: int | None
    simulated: bool
    device_name: str
    article: str
    samples: int = 1
    bus_bytes: float = 0.0
    largest_batch: int | None = None

    @property
    def bus_mb(self) -> str:
        """What goes over the bus for each sample, in MB."""
        return f"{self.bus_bytes / self.samples / 1e6:.1f}"

    @property
    def peak_gib(self) -> str:
        """The most that the device's memory held, in GiB."""
        return "–" if self.peak_memory_bytes is None else f"{self.peak_memory_bytes / 2**30:.2f}"

    @property
    def busy_share(self) -> float:
        """The share of a long run in which the device works, at most 1."""
        return min(1.0, self.device_busy_ms / self.true_step_ms)

    def to_json(self) -> dict:
        return asdict(self)


def read_fixes(lesson: Lesson, notebook: str | Path) -> dict[str, Callable]:
    """The exercises' functions as a notebook (the reference solution) defines them.

    Raises FileNotFoundError, CellError, and KeyError where an exercise is not in the notebook.
    """
    cells = json.loads(Path(notebook).read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    sources = {exercise_name(text): text for text in texts}
    files = {file: text for text in texts if exercise_name(text) is None and (file := file_name(text))}
    names = lesson.names()
    return {name: load_function(joined(sources[name], files), name, names) for name in lesson.exercises}


def measure_programs(lesson: Lesson, device: torch.device, fixed: dict[str, Callable]) -> Iterator[tuple[Figures, Trace]]:
    """Measure each of the lesson's programs in turn on ``device``; yields its figures and the trace behind them. A program
    that runs out of the device's memory has none."""
    simulated = device.type == "vgpu"
    for program in lesson.programs(fixed) if lesson.programs is not None else ():
        gc.collect()  # what earlier programs left in cycles would count into this one's peak
        if simulated:
            vgpu.timeline().reset()
            vgpu.forget_plans()  # each as in a process of its own
        try:
            with full_size(device, program.assumptions):
                step = program.make_step(device)
                how: dict = ({"warmup": 0, "blocks": 3, "at_once": True} if program.whole_run
                             else {"blocks": 5, "steps": _steps(program, step, device)})
                time = time_step(step, device=device, **how)
                steps, warmup = (1, 0) if program.whole_run else (3, 1)
                trace = profile(step, steps=steps, warmup=warmup, device=device)
                step = None  # and all that it holds
                largest = program.largest_batch(device) if program.largest_batch is not None else None
        except torch.OutOfMemoryError:
            step = None
            continue
        report = StepReport.from_trace(trace)
        first = [s.op or s.name for s in report.syncs_in_steps if s.step == 0]
        yield Figures(program.name, lesson.size(device), report.syncs_per_step,
                      sorted(set(first)) if program.whole_run else first,
                      report.host_step_ms, report.device_step_ms, report.device_busy_ms, time.true_ms,
                      report.peak_memory_bytes, simulated, device_name(device), program.article, program.samples,
                      report.bus_bytes, largest), trace


def _steps(program: Program, step: Callable[[], object], device: torch.device) -> int:
    """How many steps a block has: on a real GPU as many as take some ``BLOCK_MS``, so that slow programs take no minutes."""
    if device.type == "vgpu":
        return program.steps
    once_ms = time_step(step, steps=1, blocks=1, device=device).true_ms
    return max(2, min(program.steps, int(BLOCK_MS / once_ms)))


class MarkdownText(str):
    """Text that a notebook shows as Markdown."""

    def _repr_markdown_(self) -> str:
        return str(self)


def table(lesson: Lesson, figures: list[Figures]) -> MarkdownText:
    """The figures as a Markdown table; beside them the article's, where the lesson has any. What goes over the bus is in it
    where programs differ in that."""
    place = origin(figures[0].simulated, figures[0].device_name)
    article = bool(lesson.article)
    speed_up = "speed-up" if len({f.samples for f in figures}) == 1 else "speed-up a sample"
    bus = len({f.bus_mb for f in figures}) > 1
    memory = any(f.largest_batch is not None for f in figures)
    lines = [
        f"Lesson {lesson.id[:2]}, {figures[0].size}, {place}:",
        "",
        f"| program | syncs a step | host step ms | true step ms | GPU busy | {'over the bus MB | ' * bus}"
        + "peak GiB | largest batch | " * memory + f"{speed_up} |"
        + f" the article ({lesson.article}) |" * article,
        "|---|---:|---:|---:|---:|---:|" + "---:|" * (bus + 2 * memory) + "---|" * article,
    ]
    base = figures[0].true_step_ms / figures[0].samples
    for f in figures:
        lines.append(f"| {f.name} | {f.syncs:g} | {f.host_step_ms:.1f} | {f.true_step_ms:.1f} | {f.busy_share:.0%} | "
                     + f"{f.bus_mb} | " * bus + f"{f.peak_gib} | {f.largest_batch} | " * memory
                     + f"{base * f.samples / f.true_step_ms:.2f}× |" + f" {f.article} |" * article)
    return MarkdownText("\n".join(lines))
