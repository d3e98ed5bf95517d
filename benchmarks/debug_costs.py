"""What PyTorch's debug aids add to an operator on this host's CPU: ns a call in the fastest of all turns.

    python benchmarks/debug_costs.py [--repeats 15] [--calls 2000] [--threads N]

The operator is an addition of one element, so that the aid counts and not the arithmetic; anomaly detection's is one that
autograd keeps, at a depth of 12 frames, and its figure is for one stack. All take turns. These are the constants of
``gapless.vgpu.hardware.clock.debug_aids``. No tool listens to the NVTX ranges; ``emit_nvtx`` itself asks for CUDA, so its
ranges are switched on below it, which needs a PyTorch built with CUDA.
"""

from __future__ import annotations

import functools
import time
import warnings
from contextlib import contextmanager, nullcontext

import torch
from timing import parse, parser
from torch.autograd import profiler

DEPTH, WARM_UP = 12, 3


@contextmanager
def ranges():
    """What ``emit_nvtx`` switches on."""
    config = profiler.ProfilerConfig(profiler.ProfilerState.NVTX, False, False, False, False, False,
                                     profiler._ExperimentalConfig())
    profiler._enable_profiler(config, set())
    try:
        yield
    finally:
        profiler._disable_profiler()


def main() -> None:
    own = parser(__doc__)
    own.add_argument("--calls", type=int, default=2000, help="calls in one measurement")
    options = parse(own)
    warnings.simplefilter("ignore")
    x, kept = torch.ones(1), torch.ones(1, requires_grad=True)

    def deep(call, frames=DEPTH - 4):
        return deep(call, frames - 1) if frames else call()

    stacks: list[int] = []  # how many one call writes down: a node of its own, and one for the leaf's gradient
    original = torch.fx.traceback.format_stack

    def counted(*args):
        stacks.append(1)
        return original(*args)

    torch.fx.traceback.format_stack = counted
    with torch.autograd.set_detect_anomaly(True):
        kept * 1.0
    torch.fx.traceback.format_stack = original

    profiled = functools.partial(torch.profiler.profile, activities=[torch.profiler.ProfilerActivity.CPU])
    few = max(1, options.calls // 10)

    def add():
        torch.add(x, x)

    def keep():
        deep(lambda: kept * 1.0)

    steps = {
        "plain": (nullcontext, add, options.calls),
        "torch.profiler": (profiled, add, options.calls),
        "emit_nvtx": (ranges, add, options.calls),
        "kept by autograd": (nullcontext, keep, few),
        "anomaly detection": (functools.partial(torch.autograd.set_detect_anomaly, True), keep, few),
    }
    try:
        with ranges():
            pass
    except RuntimeError as error:
        print(f"emit_nvtx: {str(error).splitlines()[0]}")
        del steps["emit_nvtx"]
    found: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(WARM_UP + options.repeats):
        for name, (aid, call, calls) in steps.items():
            with aid():  # what it takes to start and to stop does not count
                start = time.perf_counter()
                for _ in range(calls):
                    call()
                took = time.perf_counter() - start
            if turn >= WARM_UP:
                found[name].append(took / calls * 1e9)
    ns = {name: min(times) for name, times in found.items()}
    for name, value in ns.items():
        print(f"{name:20s} {value:10.0f} ns a call   (n = {len(found[name])})")
    for name, base, each in (("torch.profiler", "plain", 1), ("emit_nvtx", "plain", 1),
                             ("anomaly detection", "kept by autograd", len(stacks))):
        if name in ns:
            print(f"{name} adds {(ns[name] - ns[base]) / each:.0f} ns{' a stack' if each > 1 else ''}")


if __name__ == "__main__":
    main()
