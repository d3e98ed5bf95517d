"""What the virtual GPU costs in real time: medians over interleaved repeats, in milliseconds of this machine.

    python benchmarks/vgpu_overhead.py [--repeats 15] [--threads N]

Measured, each after a warm-up:
- a training step of lesson 02's slow loss at the article's size (256×3×256×256), simulated without values;
- the same while the host's own work is counted, as in every measurement, and while a profile records it;
- a ResNet-50 training step (batch 64 of 3×224×224, SGD with momentum), simulated without values, turn by turn with the
  same step in PyTorch's FakeTensorMode, which has shapes and no clocks either;
- a ResNet-18 training step (batch 8 of 3×64×64, SGD with momentum), plain on the CPU and with exact values on the
  virtual GPU, turn by turn;
- the first simulated operator without values, in a fresh process: PyTorch imports its meta kernels then.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F
from timing import interleaved, parse, parser, show, within
from torch._subclasses.fake_tensor import FakeTensorMode

from gapless import vgpu
from gapless.lessons.masked_loss.workload import LABELS, LossParts, training_step
from gapless.measure.profile import profile

FIRST = """
import time, torch
from gapless import vgpu
device = vgpu.enable("a10g")
start = time.perf_counter()
with vgpu.shape_only():
    torch.ones(2, device=device).add(1)
print((time.perf_counter() - start) * 1e3)
"""


def resnet_step(name: str, device: torch.device | str, batch: int, side: int) -> Callable[[], None]:
    """A training step of torchvision's ResNet ``name`` on ``device``."""
    import torchvision.models

    torch.manual_seed(0)
    with torch.device(device):
        network = getattr(torchvision.models, name)(num_classes=10)
        images, labels = torch.randn(batch, 3, side, side), torch.randint(10, (batch,))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(network(images), labels).backward()
        optimizer.step()

    return step


def article(device: torch.device, repeats: int) -> dict[str, list[float]]:
    """Lesson 02's step at the article's size."""
    with vgpu.shape_only(LABELS):
        step = training_step(LossParts(), device)
        return interleaved({
            "article-size step, simulated": step,
            "article-size step, simulated and the host counted": within(vgpu.host_clock.counting, step),
            "article-size step, simulated and recorded": lambda: profile(step, steps=1, warmup=0, device=device),
        }, repeats)


def without_values(device: torch.device, repeats: int) -> dict[str, list[float]]:
    """ResNet-50's step on the virtual GPU and in FakeTensorMode."""
    fake = FakeTensorMode()
    with vgpu.shape_only():
        simulated = resnet_step("resnet50", device, 64, 224)
    with fake:
        faked = resnet_step("resnet50", "cpu", 64, 224)
    return interleaved({
        "ResNet-50 step 64×3×224×224, virtual GPU, shape only": within(vgpu.shape_only, simulated),
        "ResNet-50 step 64×3×224×224, FakeTensorMode": within(lambda: fake, faked),
        "the same on the virtual GPU, the host counted": within(vgpu.shape_only,
                                                                within(vgpu.host_clock.counting, simulated)),
    }, repeats)


def with_values(device: torch.device, repeats: int) -> dict[str, list[float]]:
    """ResNet-18's step on the CPU and on the virtual GPU."""
    return interleaved({
        "ResNet-18 step 8×3×64×64, virtual GPU, exact": resnet_step("resnet18", device, 8, 64),
        "ResNet-18 step 8×3×64×64, CPU": resnet_step("resnet18", "cpu", 8, 64),
    }, repeats)


def main() -> None:
    options = parse(parser(__doc__))
    device = vgpu.enable("a10g")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")

    for measure, ratio in [(article, None), (without_values, "shape only ÷ FakeTensorMode"), (with_values, "exact ÷ CPU")]:
        times = measure(device, options.repeats)
        for name, values in times.items():
            show(name, values)
        if ratio:
            ours, theirs, *_ = (statistics.median(values) for values in times.values())
            print(f"{ratio:58s} {ours / theirs:8.2f} ×", flush=True)

    firsts = [float(subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True).stdout)
              for _ in range(3)]
    show("first operator without values, in a fresh process", firsts)


if __name__ == "__main__":
    main()
