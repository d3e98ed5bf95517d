"""What one operator costs on the virtual GPU in real time, against the CPU and FakeTensorMode: medians, in µs a call.

    python benchmarks/operator_overhead.py [--repeats 15] [--calls 200] [--threads N]

Tensors are small, so that the call counts and not the arithmetic. ``exact`` and ``shape only`` are the virtual GPU's two
modes; ``fake`` is PyTorch's FakeTensorMode on the CPU, with its cache, which has shapes and no clocks either. The four
take turns.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch
import torch.nn.functional as F
from timing import interleaved, parse, parser, within
from torch._subclasses.fake_tensor import FakeTensorMode

from gapless import vgpu

MODES = ("CPU", "exact", "shape only", "fake")


def operators(device: torch.device | str) -> dict[str, Callable[[], object]]:
    """Name → a call of one operator on tensors of ``device``."""
    x, y = torch.ones(8, 8, device=device), torch.ones(8, 8, device=device)
    index = torch.zeros(4, dtype=torch.int64, device=device)
    image, window = torch.ones(1, 4, 8, 8, device=device), torch.ones(4, 4, 3, 3, device=device)
    scale = torch.ones(8, device=device)
    several, others = ([torch.ones(8, device=device) for _ in range(50)] for _ in range(2))
    return {
        "view": lambda: x.view(64),
        "add": lambda: x + y,
        "add_ (in place)": lambda: x.add_(0.0),
        "relu": lambda: x.relu(),
        "sum": lambda: x.sum(),
        "mm": lambda: x @ y,
        "cat": lambda: torch.cat([x, y]),
        "index_select": lambda: x.index_select(0, index),
        "layer_norm": lambda: F.layer_norm(x, (8,), scale, scale),
        "conv2d": lambda: F.conv2d(image, window, padding=1),
        "_foreach_add of 50": lambda: torch._foreach_add(several, others),
    }


def repeated(call: Callable[[], object], calls: int) -> Callable[[], None]:
    """``call``, ``calls`` times."""

    def loop():
        for _ in range(calls):
            call()

    return loop


def main() -> None:
    own = parser(__doc__)
    own.add_argument("--calls", type=int, default=200, help="calls in one measurement")
    options = parse(own)
    device = vgpu.enable("a10g")
    fake = FakeTensorMode()
    contexts = {"CPU": torch.no_grad, "exact": torch.no_grad, "shape only": vgpu.shape_only, "fake": lambda: fake}
    devices = {"CPU": "cpu", "exact": device, "shape only": device, "fake": "cpu"}
    calls = {}
    for mode in MODES:
        with contexts[mode]():
            calls[mode] = operators(devices[mode])
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; µs a call, median of {options.repeats}")
    print(f"{'':20s}" + "".join(f"{mode:>12s}" for mode in MODES) + f"{'shape only ÷ fake':>20s}")
    ratios = []
    for name in calls["CPU"]:
        steps = {mode: within(contexts[mode], repeated(calls[mode][name], options.calls)) for mode in MODES}
        times = interleaved(steps, options.repeats)
        cost = {mode: statistics.median(times[mode]) * 1e3 / options.calls for mode in MODES}
        ratios.append(cost["shape only"] / cost["fake"])
        print(f"{name:20s}" + "".join(f"{cost[mode]:12.1f}" for mode in MODES) + f"{ratios[-1]:20.2f}", flush=True)
    print(f"{'median ratio':20s}{'':48s}{statistics.median(ratios):20.2f}")


if __name__ == "__main__":
    main()
