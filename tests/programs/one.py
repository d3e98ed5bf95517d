"""``python -m tests.programs.one NAME``: one program on the CPU and on the virtual GPU; prints a line of JSON."""

from __future__ import annotations

import json
import logging
import os
import random
import sys
import time
import warnings

# Of the norm of each tensor that a program returns; numbers that are no floating point must be equal.
TOLERANCE = {"float16": 1e-2, "bfloat16": 1e-2, "float32": 1e-4, "float64": 1e-7}
BY_ABSOLUTE = 1e-6  # for a tensor of a norm below this


def difference(ours, theirs, mixed: bool = False) -> float:
    """How far apart two tensors are, over the tolerance: up to 1 is the same. ``mixed``: all in bfloat16's."""
    import torch

    ours, theirs = (torch.as_tensor(each).detach().cpu() for each in (ours, theirs))
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return float("inf")
    if not (ours.is_floating_point() or ours.is_complex()):
        return 0.0 if torch.equal(ours, theirs) else float("inf")
    if not torch.equal(ours.isnan(), theirs.isnan()):
        return float("inf")
    tolerance = TOLERANCE["bfloat16"] if mixed else TOLERANCE[str(ours.dtype).removeprefix("torch.").replace("complex64", "float32").replace("complex128", "float64")]
    wide = torch.complex128 if ours.is_complex() else torch.float64
    ours, theirs = (each.nan_to_num().to(wide) for each in (ours, theirs))
    norm = theirs.norm().item()
    return (ours - theirs).norm().item() / (tolerance * norm if norm > BY_ABSOLUTE else BY_ABSOLUTE)


def run(name: str) -> dict:
    """What became of the program: ``outcome`` is same, differs or error."""
    import numpy
    import torch

    import gapless

    from .table import PROGRAMS

    program = PROGRAMS[name]

    def on(device):
        for seed in (random.seed, numpy.random.seed, torch.manual_seed):
            seed(0)
        started = time.perf_counter()
        return program.run(device), time.perf_counter() - started

    try:
        theirs, cpu_s = on(torch.device("cpu"))
    except Exception as error:
        return {"outcome": "not on the CPU", "why": f"{type(error).__name__}: {error}"[:300]}
    waits = []
    device = gapless.device("vgpu:a100")
    gapless.vgpu.timeline().wait_hooks.append(waits.append)
    try:
        ours, vgpu_s = on(device)
    except Exception as error:
        return {"outcome": "error", "why": f"{type(error).__name__}: {error}".strip().split("\n")[0][:300]}
    if set(ours) != set(theirs):
        return {"outcome": "differs", "why": f"other results: {sorted(set(ours) ^ set(theirs))}"[:300]}
    launches = gapless.vgpu.timeline().kernel_count
    distances = {each: difference(ours[each], theirs[each], program.mixed) for each in theirs}
    worst = max(distances, key=distances.get)
    found = {"outcome": "same" if distances[worst] <= 1 else "differs", "of_tolerance": round(min(distances[worst], 1e9), 4),
             "results": len(ours), "kernels": launches, "waits": len(waits), "cpu_s": round(cpu_s, 2), "vgpu_s": round(vgpu_s, 2)}
    return found if found["outcome"] == "same" else found | {"why": f"{worst}: {distances[worst]:.3g} times the tolerance"}


if __name__ == "__main__":
    # What a library or a crash prints must not get between; the result has the first stream to itself.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    import torch

    torch.set_num_threads(1)
    print(json.dumps(run(sys.argv[1])), file=out, flush=True)
    os._exit(0)
