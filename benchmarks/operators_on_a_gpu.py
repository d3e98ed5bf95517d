"""What each operator of PyTorch's database does on a device: kernels, copies, waits, memory, layouts and errors.

    python -m benchmarks.operators_on_a_gpu --device cuda --out operators.json     # on a GPU
    python -m benchmarks.operators_on_a_gpu --device vgpu:h100 --against operators.json

The first samples of each entry (``op_db``) run forward and backward, each as a step of a profile. ``--against`` compares
with a file made on another device, with the same version of PyTorch, and lists by entry what differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import Counter, defaultdict
from itertools import islice
from pathlib import Path

import torch
from tests.conformance.entries import CUDA_DRIVERS, _tensors, find, full_name, move, op_db, placed

import gapless
from gapless.evidence.traces.steps import DEVICE_WORK, Steps, launches_by_correlation
from gapless.files import write_json
from gapless.measure.device import device_name
from gapless.measure.versions import versions

CALLS = 200  # of a profile
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int64": torch.int64}
FIELDS = ("error", "results", "kernels", "copies", "waits", "peak_bytes")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", nargs="*", default=list(DTYPES), choices=list(DTYPES))
    parser.add_argument("--only", help="entries whose name begins so")
    parser.add_argument("--samples", type=int, default=3, help="of an entry (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long, with what there is by then")
    parser.add_argument("--out", help="write what was found (.json)")
    parser.add_argument("--against", type=Path, help="compare with this file")
    arguments = parser.parse_args()
    device, began = gapless.device(arguments.device), time.monotonic()
    warnings.simplefilter("ignore")
    found: dict[str, dict] = {}
    calls: list = []

    def run() -> None:
        found.update(observe(calls, device))
        calls.clear()
        if arguments.out:
            write_json(arguments.out, {"what": "operators' kernels, copies, waits, memory and layouts",
                                       "gpu": device_name(device), "simulated": device.type == "vgpu",
                                       "versions": versions(), "seconds": round(time.monotonic() - began), "calls": found})

    for dtype in arguments.dtype:
        for op in op_db:
            name = full_name(op)
            if not name.startswith(arguments.only or "") or DTYPES[dtype] not in op.supported_dtypes("cuda"):
                continue
            if time.monotonic() - began > arguments.seconds:
                break
            calls += samples(name, dtype, arguments.samples, device)
            if len(calls) >= CALLS:
                run()
    run()
    print(f"{len(found)} calls on {device_name(device)}, {time.monotonic() - began:.0f} s")
    if arguments.against:
        report(found, json.loads(arguments.against.read_text(encoding="utf-8"))["calls"])
    return 0


def samples(name: str, dtype: str, count: int, device: torch.device) -> list:
    """(what it is, the call, what it needs a gradient for) of the first samples of an entry."""
    op, kind = find(name), DTYPES[dtype]
    torch.manual_seed(0)
    found = []
    try:
        for number, sample in enumerate(islice(op.sample_inputs("cpu", kind, requires_grad=kind.is_floating_point
                                                                and op.supports_autograd), count)):
            moved = sample.transform(lambda t: move(t, device) if isinstance(t, torch.Tensor) else t)
            if moved.kwargs.get("driver") in CUDA_DRIVERS:
                found.append((f"{name} {dtype} {number}", op, moved, placed(op, moved.kwargs, device)))
    except Exception as error:
        print(f"{name}: no samples: {error}", file=sys.stderr)
    return found


def forward(op, sample, kwargs):
    return op(sample.input, *sample.args, **kwargs)


def backward(out, sample, kwargs):
    pairs = [each for each in _tensors(out) if each.requires_grad]
    leaves = [each for each in _tensors((sample.input, sample.args, kwargs)) if each.requires_grad]
    if not pairs or not leaves:
        return None
    return torch.autograd.grad(pairs, leaves, [torch.ones_like(each) for each in pairs], allow_unused=True)


def observe(calls: list, device: torch.device) -> dict[str, dict]:
    """By call and direction: what it gave, launched and waited for. Each has run once before."""
    module, found, steps = torch.get_device_module(device), {}, []
    for what, op, sample, kwargs in calls:
        for direction in ("forward", "backward"):
            row = found[f"{what} {direction}"] = {}
            module.synchronize()
            module.reset_peak_memory_stats()
            before = module.memory_allocated()
            try:
                if direction == "forward":
                    out = forward(op, sample, kwargs)
                    results = _tensors(out)
                else:
                    out = backward(out, sample, kwargs)
                    results = [each for each in out or () if each is not None]
            except Exception as error:
                row["error"] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]
                break
            if direction == "backward" and out is None:
                del found[f"{what} {direction}"]
                break
            row["results"] = [[list(each.shape), list(each.stride()) if each.layout == torch.strided else str(each.layout),
                               str(each.dtype).removeprefix("torch."), each.device.type != "cpu"] for each in results]
            row["peak_bytes"] = module.max_memory_allocated() - before
            steps.append((row, direction, op, sample, kwargs))
    if not steps:
        return found
    ready, last = iter(steps), []

    def step() -> None:
        _, direction, op, sample, kwargs = next(ready)
        last[:] = [forward(op, sample, kwargs) if direction == "forward" else backward(last[0], sample, kwargs)]

    read(gapless.profile(step, steps=len(steps), warmup=0, device=device), [row for row, *_ in steps])
    return found


def read(trace, rows: list[dict]) -> None:
    """Add the kernels, copies and waits of each step of ``trace`` to its row."""
    spans = trace.spans
    at, launches = Steps(spans), launches_by_correlation(spans)
    for row in rows:
        row.update(kernels=[], copies=[], waits=[])
    for span in spans:
        launch = launches.get(span.args.get("correlation"))
        where = at.at(launch.start_us) if launch and span.category in DEVICE_WORK else None
        if where is not None:
            if span.category == "memcpy":
                rows[where]["copies"].append(span.name)
            else:
                rows[where]["kernels"].append(span.name[:100])
    for sync in gapless.StepReport.from_trace(trace).syncs_in_steps:
        rows[sync.step]["waits"].append(f"{sync.name} {sync.kind}")


def report(ours: dict, theirs: dict) -> None:
    """Print by field what differs, by entry."""
    both = [what for what in theirs if what in ours]
    print(f"{len(both)} calls in both")
    for field in FIELDS:
        differing: dict[str, list[str]] = defaultdict(list)
        for what in both:
            a, b = (comparable(field, each[what].get(field)) for each in (ours, theirs))
            if a != b:
                differing[what.partition(" ")[0]].append(f"{what.partition(' ')[2]}: {a}, there {b}")
        print(f"\n== {field}: {sum(map(len, differing.values()))} calls of {len(differing)} entries differ")
        for entry, lines in differing.items():
            print(f"{entry:40} {len(lines):2}  {lines[0][:400]}")


def comparable(field: str, value):
    if field in ("kernels", "waits") and value is not None:
        return len(value)
    if field == "copies" and value is not None:
        return dict(Counter(name.partition(" (")[0] for name in value))
    return value


if __name__ == "__main__":
    sys.exit(main())
