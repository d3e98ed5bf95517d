"""What the trace shows beside its waits, each with what it costs; nothing is said of what costs nothing."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from ..evidence.report import StepReport
from ..evidence.traces.trace import Trace

_WORTH = 0.03  # of the step's time
_SHORT_US = 10.0


@dataclass(frozen=True)
class Remark:
    """``costs_ms`` is what a step would be shorter at most; None where that is not known by itself."""

    title: str
    what: str
    costs_ms: float | None
    lesson: str


def remarks(trace: Trace, report: StepReport, step_ms: float, parts_ms: dict[str, float], saved_ms: Callable[..., float],
            facts: dict, own_ms: float = 0.0) -> list[Remark]:
    """The remarks, what costs most first. ``saved_ms``: what a step is shorter without something
    (:meth:`gapless.evidence.what_if.WhatIf.ms`). ``own_ms``: of the host's time, what is none of PyTorch's."""
    found = []
    if not report.kernels:
        found.append(Remark(
            "Nothing runs on the GPU: the script computes on the CPU",
            "The model and each batch have to be moved: `model.to(\"cuda\")`, `x = x.to(\"cuda\")`; or the script has an "
            "argument for it.", None, "00"))
    if parts_ms["input"] >= _WORTH * step_ms:
        found.append(_input(parts_ms["input"], facts))
    optimizer_ms = saved_ms(without={"optimizer"})
    kernels = _optimizer_kernels(trace) / max(report.steps, 1)
    if optimizer_ms >= _WORTH * step_ms and kernels > 2:
        found.append(Remark(
            f"The optimizer keeps the host busy: {kernels:.0f} kernels a step",
            "`fused=True` makes it one kernel or a few, where the optimizer has it; `foreach=True` a few for each list of "
            "parameters.", optimizer_ms, "06"))
    allocator_ms = saved_ms(without={"allocator"})
    if allocator_ms >= _WORTH * step_ms:
        found.append(Remark(
            "The allocator asks the driver for memory in every step",
            "Equal sizes from step to step, no `torch.cuda.empty_cache()` in the loop; "
            "`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`.", allocator_ms, "08"))
    kernel_us = [span.end_us - span.start_us for span in trace.spans if span.category == "kernel"]
    if parts_ms["host"] - own_ms >= 0.25 * step_ms and kernel_us and statistics.median(kernel_us) < _SHORT_US:
        found.append(Remark(
            f"The host cannot keep the GPU busy: {report.kernels:.0f} kernels a step, half of them shorter than "
            f"{statistics.median(kernel_us):.1f} µs",
            "Larger batches; fewer and larger kernels (`torch.compile`, fused operators); a step as one launch (CUDA "
            "graphs, `mode=\"reduce-overhead\"`).", parts_ms["host"] - own_ms, "06"))
    return sorted(found, key=lambda each: -(each.costs_ms or 0.0))


def _input(costs_ms: float, facts: dict) -> Remark:
    loaders = facts.get("loaders") or []
    without = [each for each in loaders if not each["num_workers"]]
    if without:
        title = "The GPU waits for batches that the main process makes itself (`num_workers=0`)"
        what = "`DataLoader(…, num_workers=4, pin_memory=True)`; try 2, 4, 8. Small tensors in memory: index them whole, " \
               "without a loader."
    else:
        title = "The GPU waits for batches that the workers do not make fast enough"
        what = "More workers up to the cores there are, `prefetch_factor=`, cheaper decoding and augmentation, or that on " \
               "the GPU."
    return Remark(title, what, costs_ms, "04")


def _optimizer_kernels(trace: Trace) -> int:
    from ..evidence.what_if import OPTIMIZER_MARK

    blocks = [(span.start_us, span.end_us) for span in trace.spans if span.name == OPTIMIZER_MARK]
    numbers = {span.args.get("correlation") for span in trace.spans if span.category == "runtime"
               and any(start_us <= span.start_us < end_us for start_us, end_us in blocks)} - {None}
    return sum(span.category == "kernel" and span.args.get("correlation") in numbers for span in trace.spans)
