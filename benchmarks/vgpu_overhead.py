"""What the virtual GPU costs in real time: medians over interleaved repeats, in milliseconds of this machine.

    python benchmarks/vgpu_overhead.py [--repeats 15] [--threads N]

Measured, each after a warm-up:
- a training step of lesson 02's slow loss at the article's size (256×3×256×256), simulated without values;
- the same while a profile records it;
- a ResNet-18 training step (batch 8 of 3×64×64, SGD with momentum), plain on the CPU and with exact values on the
  virtual GPU, turn by turn;
- the first simulated operator without values, in a fresh process: PyTorch imports its meta kernels then.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

from gapless import vgpu
from gapless.lessons.masked_loss import LABELS, LossParts, training_step
from gapless.profile import profile

FIRST = """
import time, torch
from gapless import vgpu
device = vgpu.enable("a10g")
start = time.perf_counter()
with vgpu.shape_only():
    torch.ones(2, device=device).add(1)
print((time.perf_counter() - start) * 1e3)
"""


def resnet_step(device: torch.device | str) -> Callable[[], None]:
    """A training step of ResNet-18 on ``device``."""
    from torchvision.models import resnet18

    torch.manual_seed(0)
    network = resnet18(num_classes=10).to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.randn(8, 3, 64, 64).to(device), torch.randint(10, (8,)).to(device)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(network(images), labels).backward()
        optimizer.step()

    return step


def milliseconds(step: Callable[[], object]) -> float:
    """Real time of one call."""
    start = time.perf_counter()
    step()
    return (time.perf_counter() - start) * 1e3


def interleaved(steps: dict[str, Callable[[], object]], repeats: int, warmup: int = 3) -> dict[str, list[float]]:
    """Times of each of ``steps``, turn by turn, so that a busy machine is as unfair to one as to another."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(warmup + repeats):
        for name, step in steps.items():
            took = milliseconds(step)
            if turn >= warmup:
                times[name].append(took)
    return times


def show(name: str, times: list[float]) -> None:
    middle, low, high = statistics.median(times), min(times), max(times)
    print(f"{name:58s} {middle:8.1f} ms   ({low:.1f} … {high:.1f}, n = {len(times)})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15, help="how often each is measured")
    parser.add_argument("--threads", type=int, help="threads of PyTorch on the CPU (default: PyTorch's choice)")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    device = vgpu.enable("a10g")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")

    with vgpu.shape_only(LABELS):
        step = training_step(LossParts(), device)
        times = interleaved({
            "article-size step, simulated": step,
            "article-size step, simulated and recorded": lambda: profile(step, steps=1, warmup=0, device=device),
        }, options.repeats)
    for name, values in times.items():
        show(name, values)

    times = interleaved({
        "ResNet-18 step 8×3×64×64, CPU": resnet_step("cpu"),
        "ResNet-18 step 8×3×64×64, virtual GPU, exact": resnet_step(device),
    }, options.repeats)
    for name, values in times.items():
        show(name, values)
    plain, simulated = (statistics.median(values) for values in times.values())
    print(f"{'exact ÷ CPU':58s} {simulated / plain:8.2f} ×")

    firsts = [float(subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True).stdout)
              for _ in range(3)]
    show("first operator without values, in a fresh process", firsts)


if __name__ == "__main__":
    main()
