"""Real time of a simulated step on several virtual GPUs, with values and without, and that two runs give the same clocks.

    python benchmarks/several_gpus.py [--steps N]

A step is forward, backward and SGD of four layers of 256 numbers under DistributedDataParallel, 64 samples a rank. Each rank
is a process with one thread: with fewer cores than ranks they share them. Needs no GPU.
"""

import argparse
import os
import statistics
import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gapless
from gapless import vgpu


def train(rank, world, steps, has_values):
    """[real ms of each step], virtual ns at the end."""
    dist.init_process_group()
    device, took = torch.device("vgpu:0"), []
    with nullcontext() if has_values else vgpu.shape_only():
        torch.manual_seed(0)
        model = DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)]).to(device))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(steps):
            began = time.perf_counter()
            model(torch.randn(64, 256, device=device)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            took.append((time.perf_counter() - began) * 1e3)
        torch.vgpu.synchronize()
        end_ns = vgpu.timeline().host_ns
    dist.destroy_process_group()
    return took, end_ns


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30)
    steps = parser.parse_args().steps
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    print(f"{cores} cores, load {load:.1f}, torch {torch.__version__}; median of {steps} steps")
    print("| ranks | with values (ms) | without (ms) | the same clocks in two runs |\n|---|---|---|---|")
    for world in (2, 4, 8):
        cells, same = [], True
        for has_values in (True, False):
            runs = [gapless.on_gpus(world, train, steps, has_values, device="a100") for _ in range(2)]
            same &= len({tuple(each.value[1] for each in run) + tuple(each.host_ns for each in run) for run in runs}) == 1
            cells.append(statistics.median(ms for run in runs for each in run for ms in each.value[0][2:]))
        print(f"| {world} | {cells[0]:.0f} | {cells[1]:.0f} | {'yes' if same else 'NO'} |", flush=True)


if __name__ == "__main__":
    main()
