"""What the trace shows beside its waits, each with what it costs; nothing is said of what costs nothing."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..evidence.report import StepReport
from ..evidence.traces.trace import Trace
from ..words import counted
from .loaders import Loader

_WORTH = 0.03  # of the step's time
_MUCH = 0.1
_SHORT_US = 10.0


@dataclass(frozen=True)
class Remark:
    """``costs_ms`` is what a step would be shorter at most; None where that is not known by itself."""

    title: str
    what: str
    costs_ms: float | None
    lesson: str


def remarks(trace: Trace, report: StepReport, step_ms: float, parts_ms: dict[str, float], saved_ms: Callable[..., float],
            kinds: Mapping[int, str], loaders: Sequence[Loader] = (), own_ms: float = 0.0) -> list[Remark]:
    """The remarks, what costs most first. ``saved_ms``: what a step is shorter without something
    (:meth:`gapless.evidence.what_if.WhatIf.ms`). ``kinds``: of each span of the device's work, by its id. ``own_ms``: of the
    host's time, what is none of PyTorch's."""
    found = []
    if not report.kernels:
        found.append(Remark(
            "Nothing runs on the GPU: the script computes on the CPU",
            "The model and each batch have to be moved: `model.to(\"cuda\")`, `x = x.to(\"cuda\")`; or the script has an "
            "argument for it.", None, "00"))
    found += [_input(loader) for loader in loaders if loader.costs_ms >= _WORTH * step_ms]
    if not loaders and parts_ms["input"] >= _WORTH * step_ms:
        found.append(Remark(
            "The GPU waits for batches",
            "More workers (`num_workers=`), as many as there are cores; cheaper decoding, or decoding on the GPU.",
            parts_ms["input"], "04"))
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
    found += _device(kinds, step_ms, saved_ms)
    return sorted(found, key=lambda each: -(each.costs_ms or 0.0))


# Kinds of kernels whose limit is the memory's bandwidth, as each element is read or written for a few operations.
BANDWIDTH = frozenset({"elementwise", "normalisation", "reductions and losses"})
_PRODUCTS = frozenset({"matrix products", "convolutions"})
_FLOAT32 = re.compile("sgemm|scudnn|float32")  # cuBLAS's, cuDNN's, the virtual GPU's


def _device(kinds: Mapping[int, str], step_ms: float, saved_ms: Callable[..., float]) -> list[Remark]:
    """What the GPU spends a tenth of the step on, where something can be done about it."""
    found = []
    bandwidth_ms = saved_ms(without_work=lambda span: kinds[id(span)] in BANDWIDTH)
    if bandwidth_ms >= _MUCH * step_ms:
        found.append(Remark(
            "Elementwise kernels, normalisation and losses keep the GPU busy: the memory's bandwidth limits them",
            "`torch.compile` merges them, so that values are read and written once; bfloat16 halves their bytes.",
            bandwidth_ms, "07"))
    float32_ms = saved_ms(without_work=lambda span: kinds[id(span)] in _PRODUCTS and bool(_FLOAT32.search(span.name)))
    if float32_ms >= _MUCH * step_ms:
        found.append(Remark(
            "Matrix products and convolutions in float32 keep the GPU busy: its tensor cores do nothing",
            "`torch.set_float32_matmul_precision(\"high\")` for TF32, or `torch.autocast(\"cuda\", dtype=torch.bfloat16)`; "
            "`--try tf32,amp` tells what a step then takes.", float32_ms, "05"))
    return found


def _input(loader: Loader) -> Remark:
    """What to do about batches that come late."""
    at = f"{loader.location}: " if loader.location else ""
    batches = "batches" if loader.trains else "evaluation's batches"
    takes = f"{loader.work_ms + loader.wait_ms:.3g} ms each"
    if loader.wait_ms > loader.work_ms:
        takes += ", most of it waiting for a disk, a network or a lock"
    if not loader.num_workers:
        title = f"{at}`num_workers=0`, so the program makes {batches} itself, {takes}"
    elif loader.needs is not None and loader.needs <= loader.num_workers:
        return Remark(f"{at}{batches} are ready, but taking each over from its worker takes {loader.fetch_ms:.3g} ms",
                      "Fewer and larger tensors in a batch; `pin_memory=True` lets a thread take them over.",
                      loader.costs_ms, "04")
    else:
        title = f"{at}{counted(loader.num_workers, 'worker')} cannot keep up: {batches} take {takes}"
    if loader.needs is None:
        what = "More workers do not help, as the host has too few cores: make decoding and augmentation cheaper, do them " \
               "once before the training, or on the GPU."
    else:
        what = (f"With `num_workers={loader.needs}` and `pin_memory=True` they come as fast as the rest of the step needs "
                "them.")
        if not loader.num_workers:
            what += " If the data is small tensors in memory, index them whole, without a loader."
    return Remark(title, what, loader.costs_ms, "04")


def _optimizer_kernels(trace: Trace) -> int:
    from ..evidence.what_if import OPTIMIZER_MARK

    blocks = [(span.start_us, span.end_us) for span in trace.spans if span.name == OPTIMIZER_MARK]
    numbers = {span.args.get("correlation") for span in trace.spans if span.category == "runtime"
               and any(start_us <= span.start_us < end_us for start_us, end_us in blocks)} - {None}
    return sum(span.category == "kernel" and span.args.get("correlation") in numbers for span in trace.spans)
