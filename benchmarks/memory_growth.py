"""Whether simulating holds memory: what this process holds after many steps, and what it held before.

    python benchmarks/memory_growth.py [--steps 1000] [--every 100]

Training steps without values (lesson 02 at the article's size, ResNet-18) and with (a small network), each for
``--steps`` steps after a tenth as many that do not count, since caches fill then. Printed every ``--every`` steps:
memory of the process (resident, MB, Linux), live Python objects, and bytes on the modelled card. The last line of each says
by how much a step made them grow, over the second half.
"""

from __future__ import annotations

import argparse
import gc
import os
from collections.abc import Callable

import torch
from timing import within
from vgpu_overhead import resnet_step

from gapless import vgpu
from gapless.lessons.masked_loss.workload import LABELS, LossParts, training_step


def small_step(device: torch.device) -> Callable[[], None]:
    """A training step with values, of a network of two layers, that reads its loss."""
    network = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)).to(device)
    optimizer = torch.optim.AdamW(network.parameters())
    images = torch.randn(32, 64)

    def step():
        optimizer.zero_grad()
        loss = network(images.to(device)).square().mean()
        loss.backward()
        optimizer.step()
        loss.item()

    return step


def held() -> tuple[float, int, int]:
    """Resident memory of the process in MB, live Python objects, bytes on the card."""
    gc.collect()
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6, len(gc.get_objects()), vgpu.memory().allocated_bytes


def watch(name: str, step: Callable[[], object], steps: int, every: int) -> None:
    """Run ``steps`` steps and print what is held meanwhile."""
    for _ in range(steps // 10):
        step()
    found = []
    print(f"{name}\n{'steps':>8s}{'MB':>10s}{'objects':>10s}{'card, bytes':>16s}")
    for done in range(0, steps + 1, every):
        found.append(held())
        print(f"{done:8d}{found[-1][0]:10.1f}{found[-1][1]:10d}{found[-1][2]:16d}", flush=True)
        if done < steps:
            for _ in range(every):
                step()
    half = len(found) // 2
    counted = (len(found) - 1 - half) * every
    growth = [(last - first) / counted for first, last in zip(found[half], found[-1])]
    print(f"growth a step: {growth[0] * 1e3:.2f} kB, {growth[1]:.3f} objects, {growth[2]:.1f} bytes on the card\n",
          flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000, help="steps of each")
    parser.add_argument("--every", type=int, default=100, help="steps between two lines")
    options = parser.parse_args()
    if not 1 <= options.every <= options.steps:
        parser.error("--every must be between 1 and --steps")
    device = vgpu.enable("a10g")
    with vgpu.shape_only(LABELS):
        article = training_step(LossParts(), device)
        resnet = resnet_step("resnet18", device, 64, 224)
    watch("lesson 02 at the article's size, shape only", within(lambda: vgpu.shape_only(LABELS), article),
          options.steps, options.every)
    watch("ResNet-18, shape only", within(vgpu.shape_only, resnet), options.steps, options.every)
    del article, resnet
    watch("two layers, exact", small_step(device), options.steps, options.every)


if __name__ == "__main__":
    main()
