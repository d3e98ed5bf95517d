"""Predicted and measured step times, kernel times and memory of five training steps.

The steps are those of :mod:`gapless.fidelity.workloads`, which no card was fitted to.
"""

from __future__ import annotations

import math
import re
import statistics
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

import torch

from .. import vgpu
from ..evidence.traces.steps import Steps, launches_by_correlation, union_ms, work_in_steps
from ..evidence.traces.trace import Trace
from ..measure.device import device as choose_device
from ..measure.profile import profile, time_step
from .workloads import DTYPES, WORKLOADS

PROFILED_STEPS = 3


@dataclass(frozen=True)
class Figures:
    """One step of one workload: its time, the device's busy time by kind of kernel, its peak of memory."""

    step_ms: float
    busy_ms: float
    kinds_ms: dict[str, float]
    kernels: float
    peak_bytes: int


# -- figures ----------------------------------------------------------------------------------------


def predict(card: str, cases: list[tuple[str, str]]) -> dict[tuple[str, str], Figures]:
    """Simulate ``cases`` (workload, dtype) on ``card``, without values. Raises UnknownDevice."""
    device = choose_device(f"vgpu:{card}")
    with vgpu.shape_only():
        return measure_all(device, cases)


def measure_all(device: torch.device, cases: list[tuple[str, str]]) -> dict[tuple[str, str], Figures]:
    """The figures of each case on ``device``, with a line of progress each."""
    found = {}
    for case in cases:
        if device.type == "vgpu":
            vgpu.timeline().reset()
        found[case] = measure(device, *case)
        print(f"{case[0]} {case[1]}: {found[case].step_ms:.1f} ms a step", file=sys.stderr, flush=True)
    return found


def measure(device: torch.device, name: str, dtype: str, small: bool = False) -> Figures:
    """The figures of one workload on ``device``, measured on a GPU and simulated on the virtual one."""
    step = WORKLOADS[name].step(device, DTYPES[dtype], small)
    module = getattr(torch, device.type)
    for _ in range(3):
        step()
    module.synchronize()
    module.reset_peak_memory_stats()
    step()
    peak_bytes = module.max_memory_allocated()
    simulated = device.type == "vgpu"
    time = time_step(step, warmup=0 if simulated else 5, steps=3 if simulated else 10, blocks=5, device=device)
    kinds_ms, busy_ms, kernels = kernel_times(profile(step, steps=PROFILED_STEPS, warmup=0, device=device))
    if not simulated:
        del step
        module.empty_cache()
    return Figures(time.true_ms, busy_ms, kinds_ms, kernels, peak_bytes)


def kernel_times(trace: Trace) -> tuple[dict[str, float], float, float]:
    """Per step: ms by kind of kernel, ms in which the device was busy, and number of kernels."""
    spans = trace.spans
    steps = Steps(spans)
    work = work_in_steps(spans, steps, launches_by_correlation(spans))
    each = max(len(steps), 1)
    kinds: dict[str, float] = defaultdict(float)
    for span in work:
        kinds[kind_of(span.name) if span.category == "kernel" else "copy"] += span.duration_ms / each
    return dict(kinds), union_ms(work) / each, sum(span.category == "kernel" for span in work) / each


# The first that fits counts. Names of CUDA kernels as profiles of PyTorch on A100 and H100 show them, and our own.
_KINDS = [(kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in (
    ("attention", r"flash|fmha|attention|mem_eff"),
    ("optimizer", r"multi_tensor_apply|fused_adam"),
    ("convolution", r"conv|wgrad|dgrad|fprop|implicit_gemm|winograd|nchwToNhwc|nhwcToNchw|xmma.*(nhwc|nchw)"),
    ("normalization", r"batch_?norm|bn_fw|bn_bw|layer_?norm|group_?norm|norm_(forward|backward)|GammaBeta"),
    ("matmul", r"gemm|gemv|cutlass|nvjet|splitK|s1688|s16816|cublas"),
    ("sort", r"sort"),
    ("scan", r"scan|select"),
    ("scatter", r"scatter|indexing_backward|embedding_backward|index_put|compute_grad_weight|krn_partial"),
    ("gather", r"gather|index(_elementwise)?_kernel|indexSelect|index_select"),
    ("reduction", r"reduce|reduction|softmax|nll_loss|norm"),
)]


def kind_of(kernel: str) -> str:
    """The kind of a kernel, from its name; pointwise where the name tells nothing."""
    return next((kind for kind, pattern in _KINDS if pattern.search(kernel)), "pointwise")


# -- the comparison -------------------------------------------------------------------------------------


def error_share(predicted: float, measured: float) -> float | None:
    """By what share the prediction is too long; None where nothing was measured."""
    return (predicted - measured) / measured if measured and math.isfinite(measured) else None


def compare(card: str, predicted: dict[tuple[str, str], Figures], measured: dict[tuple[str, str], Figures] | None = None
            ) -> dict:
    """What was predicted with ``card``, beside what was measured on the GPU here, where it was; plain JSON types."""
    cases = []
    for case, figures in predicted.items():
        row: dict[str, Any] = {"workload": case[0], "dtype": case[1], "predicted": asdict(figures)}
        if measured is not None:
            row["measured"] = asdict(measured[case])
            row["step_error"] = error_share(figures.step_ms, measured[case].step_ms)
            row["memory_error"] = error_share(figures.peak_bytes, measured[case].peak_bytes)
        cases.append(row)
    errors = [abs(row["step_error"]) for row in cases if row.get("step_error") is not None]
    found = vgpu.find_card(card)
    return {
        "what": "training steps, predicted" + ("" if measured is None else " and measured"),
        "simulated": measured is None,
        "card": {"key": found.key, "name": found.name, "source": found.source},
        "gpu": None if measured is None else torch.cuda.get_device_name(),
        "median_step_error": statistics.median(errors) if errors else None,
        "worst_step_error": max(errors, default=None),
        "cases": cases,
    }


def table(record: dict) -> str:
    """What :func:`compare` returned, as text: a line a case, then the kinds of kernels that take longest."""
    predicted_only = record["simulated"]
    heading = (f"Predicted with {record['card']['name']} ({record['card']['source']})"
               + (": simulated, compared with nothing" if predicted_only else f", measured on {record['gpu']}"))
    rows = [("workload", "dtype", "step ms", *(() if predicted_only else ("measured", "error")), "busy ms",
             *(() if predicted_only else ("measured",)), "kernels", "peak GiB",
             *(() if predicted_only else ("measured", )),
             "longest kinds, ms")]
    for case in record["cases"]:
        figures, other = case["predicted"], case.get("measured")
        longest = sorted(figures["kinds_ms"].items(), key=lambda item: -item[1])[:4]
        kinds = ", ".join(f"{kind} {ms:.1f}" + (f" ({other['kinds_ms'].get(kind, 0.0):.1f})" if other else "")
                          for kind, ms in longest)
        rows.append((
            case["workload"], case["dtype"], f"{figures['step_ms']:.1f}",
            *((f"{other['step_ms']:.1f}", f"{case['step_error']:+.0%}") if other else ()),
            f"{figures['busy_ms']:.1f}", *((f"{other['busy_ms']:.1f}",) if other else ()), f"{figures['kernels']:g}",
            f"{figures['peak_bytes'] / 2**30:.2f}", *((f"{other['peak_bytes'] / 2**30:.2f}",) if other else ()), kinds))
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = [heading, ""] + ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    if record["median_step_error"] is not None:
        lines += ["", f"error of the step time: median {record['median_step_error']:.0%}, "
                  f"worst {record['worst_step_error']:.0%}"]
    return "\n".join(lines)
