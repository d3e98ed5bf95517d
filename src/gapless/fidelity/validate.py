"""``gapless validate``: predicted and measured step times, kernel times and memory of five training steps.

The steps are those of :mod:`gapless.workloads`, which no card was fitted to. Without a GPU, ``--predict-only`` prints the
predictions, which are simulated and compared with nothing.
"""

from __future__ import annotations

import datetime
import json
import math
import re
import shlex
import statistics
import subprocess
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass

import torch

from .. import vgpu
from ..measure.device import device as choose_device
from ..measure.device import device_name
from ..files import write_json
from ..measure.profile import profile, time_step
from ..commands.record import RecordError, find_model, versions
from ..evidence.report import Steps, launches_by_correlation, union_ms, work_in_steps
from ..evidence.trace import Trace
from .workloads import DTYPES, WORKLOADS

PROFILED_STEPS = 3


class ValidationError(RecordError):
    """It cannot be validated; the message says what to do."""


@dataclass(frozen=True)
class Figures:
    """One step of one workload: its time, the device's busy time by kind of kernel, its peak of memory."""

    step_ms: float
    busy_ms: float
    kinds_ms: dict[str, float]
    kernels: float
    peak_bytes: int


def add_parser(commands) -> None:
    """Add ``validate`` to the command line."""
    parser = commands.add_parser("validate", help="compare predicted with measured step times",
                                 description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", default="cuda", help="the GPU to measure (default: %(default)s)")
    parser.add_argument("--card",
                        help="the card to predict with: a name or a card file; by default the one of the GPU's name")
    parser.add_argument("--predict-only", action="store_true", help="only simulate: needs no GPU")
    parser.add_argument("--workload", action="append", choices=list(WORKLOADS), help="only this one; may be repeated")
    parser.add_argument("--dtype", action="append", choices=list(DTYPES), help="only this one; may be repeated")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--out", help="also write a record (.json)")
    parser.set_defaults(run=run)


def run(arguments) -> int:
    """Predict, measure, print, write the record. Raises ValidationError where there is no card to predict with."""
    names, dtypes = arguments.workload or list(WORKLOADS), arguments.dtype or list(DTYPES)
    cases = [(name, dtype) for name in names for dtype in dtypes]
    if arguments.predict_only:
        card, measured = arguments.card or vgpu.card().key, None
        predicted = predict(card, cases)
    else:
        device = choose_device(arguments.device)
        if device.type != "cuda":
            raise ValidationError(f"{arguments.device} is simulated and cannot be measured: say --predict-only")
        card = arguments.card or find_model(device_name(device))
        if card is None:
            raise ValidationError(f"no card models {device_name(device)}: name one with --card, or make one with "
                                  "`gapless calibrate`")
        predicted = _predict_in_a_process_of_its_own(card, cases)
        measured = {case: _said(case, measure(device, *case)) for case in cases}
    record = _record(arguments, card, predicted, measured)
    print(json.dumps(record, indent=1, ensure_ascii=False) if arguments.json else table(record))
    if arguments.out:
        write_json(arguments.out, record)
    return 0


# -- figures ----------------------------------------------------------------------------------------


def predict(card: str, cases: list[tuple[str, str]]) -> dict[tuple[str, str], Figures]:
    """Simulate ``cases`` (workload, dtype) on ``card``, without values."""
    found = {}
    for case in cases:
        device = choose_device(f"vgpu:{card}")
        vgpu.timeline().reset()
        with vgpu.shape_only():
            found[case] = _said(case, measure(device, *case))
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


def _predict_in_a_process_of_its_own(card: str, cases) -> dict:
    """With both devices in one process PyTorch would take ``vgpu`` for the accelerator."""
    command = [sys.executable, "-c", "import sys; from gapless.validate import main; sys.exit(main(sys.argv[1:]))",
               "--predict-only", "--json", "--card", card]
    for name, dtype in cases:
        command += ["--workload", name, "--dtype", dtype]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise ValidationError(f"the prediction failed: {done.stderr.strip()}")
    rows = {(row["workload"], row["dtype"]): row for row in json.loads(done.stdout)["cases"]}
    return {case: Figures(**rows[case]["predicted"]) for case in cases}


def main(argv: list[str]) -> int:
    """This command alone, for a process of its own."""
    import argparse

    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    arguments = parser.parse_args(["validate", *argv])
    # Each workload and dtype was named once a case.
    arguments.workload = list(dict.fromkeys(arguments.workload or WORKLOADS))
    arguments.dtype = list(dict.fromkeys(arguments.dtype or DTYPES))
    return run(arguments)


def _said(case, figures: Figures) -> Figures:
    print(f"{case[0]} {case[1]}: {figures.step_ms:.1f} ms a step", file=sys.stderr, flush=True)
    return figures


# -- the record -------------------------------------------------------------------------------------


def error_share(predicted: float, measured: float) -> float | None:
    """By what share the prediction is too long; None where nothing was measured."""
    return (predicted - measured) / measured if measured and math.isfinite(measured) else None


def _record(arguments, card: str, predicted: dict, measured: dict | None) -> dict:
    cases = []
    for case, figures in predicted.items():
        row = {"workload": case[0], "dtype": case[1], "predicted": asdict(figures)}
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
        "versions": versions(),
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["gapless", "validate", *(["--predict-only"] if arguments.predict_only else []),
                               *(["--card", arguments.card] if arguments.card else [])]),
        "median_step_error": statistics.median(errors) if errors else None,
        "worst_step_error": max(errors, default=None),
        "cases": cases,
    }


def table(record: dict) -> str:
    """The record as text: a line a case, then the kinds of kernels that take longest."""
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
