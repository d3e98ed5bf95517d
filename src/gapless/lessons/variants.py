"""Lesson 02's program from the slow loss to the fixed one, measured at the article's size."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from .. import vgpu
from ..device import device_name
from ..marker import exercise_name
from ..profile import profile, time_step
from ..report import StepReport
from ..trace import Trace
from .cells import load_function
from .exercise import full_size
from .masked_loss import ARTICLE_SIZE, LABELS, LESSON, LossParts, size_for, training_step

# What the article reports (an A10G, PyTorch 2.0): its trace's step time, and its later restatement.
ARTICLE = {
    "slow": "1300 ms",
    "+ where": "as before",
    "+ no unique": "as before",
    "+ ignore_index": "5.4 ms in the trace, “240×”; later restated as about 330 ms, 4×",
}


@dataclass(frozen=True)
class Variant:
    """One program and its figures; times in ms a step. ``host_step_ms`` and ``device_step_ms`` are from a trace of
    three steps, ``true_step_ms`` from a long run without a profiler."""

    name: str
    batch: int
    syncs: float
    sync_ops: list[str]
    host_step_ms: float
    device_step_ms: float
    true_step_ms: float
    peak_memory_bytes: int | None
    simulated: bool
    device_name: str

    def to_json(self) -> dict:
        return asdict(self)


def fixes(notebook: Path) -> dict[str, Callable]:
    """The exercises' functions as a notebook (the reference solution) defines them. Raises FileNotFoundError."""
    cells = json.loads(Path(notebook).read_text(encoding="utf-8"))["cells"]
    sources = {exercise_name("".join(cell["source"])): "".join(cell["source"])
               for cell in cells if cell["cell_type"] == "code"}
    return {name: load_function(sources[name], name, LESSON.names) for name in LESSON.exercises}


def losses(fixed: dict[str, Callable]) -> dict[str, LossParts]:
    """The loss as first written, then with one fix after another, as in the article."""
    background, uniform, entropy = (fixed[n] for n in ("ignore_background", "zero_if_uniform", "masked_cross_entropy"))
    return {
        "slow": LossParts(),
        "+ where": LossParts(background),
        "+ no unique": LossParts(background, uniform),
        "+ ignore_index": LossParts(background, uniform, entropy),
    }


def measure_variants(device: torch.device, fixed: dict[str, Callable]) -> Iterator[tuple[Variant, Trace]]:
    """Measure each variant in turn on ``device``; yields its figures and the trace behind them."""
    simulated = device.type == "vgpu"
    size = size_for(device)
    for name, loss in losses(fixed).items():
        if simulated:
            vgpu.timeline().reset()
        with full_size(device, LABELS):
            step = training_step(loss, device, size)
            time = time_step(step, steps=20, blocks=5, device=device)
            trace = profile(step, steps=3, warmup=1, device=device)
        report = StepReport.from_trace(trace)
        first = [s for s in report.syncs_in_steps if s.step == 0]
        yield Variant(name, size.batch, report.syncs_per_step, [s.op or s.name for s in first], report.host_step_ms,
                      report.device_step_ms, time.true_ms, report.peak_memory_bytes, simulated,
                      device_name(device)), trace


class MarkdownText(str):
    """Text that a notebook shows as Markdown."""

    def _repr_markdown_(self) -> str:
        return str(self)


def table(variants: list[Variant]) -> MarkdownText:
    """The figures as a Markdown table, the article's beside them."""
    kind = "simulated" if variants[0].simulated else "measured"
    batch, side = variants[0].batch, ARTICLE_SIZE.side
    size = "the article's size" if batch == ARTICLE_SIZE.batch else f"the article's {ARTICLE_SIZE.batch} does not fit"
    lines = [
        f"Lesson 02, batch {batch} of 3×{side}×{side} ({size}), {kind} {variants[0].device_name}:",
        "",
        "| variant | syncs a step | host step ms | device step ms | true step ms | speed-up | the article (A10G) |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    base = variants[0].true_step_ms
    for v in variants:
        lines.append(f"| {v.name} | {v.syncs:g} | {v.host_step_ms:.1f} | {v.device_step_ms:.1f} | {v.true_step_ms:.1f} | "
                     f"{base / v.true_step_ms:.2f}× | {ARTICLE[v.name]} |")
    return MarkdownText("\n".join(lines))
