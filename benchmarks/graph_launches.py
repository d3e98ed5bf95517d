"""What a graph's launch takes by its number of kernels, and what optimizers launch: on a GPU, or as modelled.

    python benchmarks/graph_launches.py [--device cuda|vgpu:a100] [--repeats 15]

For each number of kernels (an addition to 1000 elements): capturing and instantiating, the host's time of a replay, and
the device's time of a kernel in the graph and in a stream. Then steps of optimizers of 200 tensors, one by one, by lists
and fused: kernels and the host's time. The constants of ``src/gapless/vgpu/hardware/clock/graphs.py`` and the launches of
``hardware/multi_tensor.py`` are held against these.
"""

from __future__ import annotations

import argparse
import statistics
import time
from contextlib import nullcontext

import torch

import gapless
from gapless import vgpu

NODES = (1, 10, 100, 1000)
TENSORS = 200


def main() -> None:
    own = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    own.add_argument("--device", default=None, help="as for gapless.device (default: its choice)")
    own.add_argument("--repeats", type=int, default=15, help="how often each is measured")
    options = own.parse_args()
    device = gapless.device(options.device)
    print(getattr(torch, device.type).get_device_name())
    with vgpu.shape_only() if device.type == "vgpu" else nullcontext():
        measure(device, options.repeats)


def measure(device: torch.device, repeats: int) -> None:
    module = getattr(torch, device.type)

    def now_us() -> float:
        return vgpu.timeline().host_ns / 1e3 if device.type == "vgpu" else time.perf_counter() * 1e6

    def median_us(call, synchronized: bool) -> float:
        found = []
        for _ in range(repeats):
            module.synchronize()
            start = now_us()
            call()
            if synchronized:
                module.synchronize()
            found.append(now_us() - start)
        return statistics.median(found)

    x = torch.zeros(1000, device=device)
    print(f"{'kernels':>8} {'capture':>10} {'first':>8} {'replay':>8}  a kernel on the device: {'graph':>7} {'stream':>7}"
          "  (µs)")
    for nodes in NODES:
        graph, start = module.CUDAGraph(), now_us()
        with module.graph(graph):
            for _ in range(nodes):
                x.add_(1.0)
        captured = now_us() - start
        module.synchronize()
        start = now_us()
        graph.replay()
        first = now_us() - start
        host, whole = median_us(graph.replay, False), median_us(graph.replay, True)

        def stream(nodes=nodes):
            for _ in range(nodes):
                x.add_(1.0)

        begin, end = module.Event(enable_timing=True), module.Event(enable_timing=True)
        held = torch.zeros(4096, 4096, device=device)
        times = []
        for _ in range(repeats):
            for _ in range(20):  # the device is busy while the host runs ahead
                held.addmm_(held, held)
            begin.record()
            stream()
            end.record()
            module.synchronize()
            times.append(begin.elapsed_time(end) * 1e3)
        print(f"{nodes:8d} {captured:10.1f} {first:8.1f} {host:8.1f}  {'':23} {(whole - host) / nodes:7.2f} "
              f"{statistics.median(times) / nodes:7.2f}")

    print(f"\n{'a step of ' + str(TENSORS) + ' tensors':40} {'kernels':>8} {'host, µs':>10}")
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        for name in ("foreach=False", "foreach=True", "fused=True"):
            weights = [torch.nn.Parameter(torch.zeros(64, 64, device=device)) for _ in range(TENSORS)]
            for weight in weights:
                weight.grad = torch.ones_like(weight)
            option, value = name.split("=")
            optimizer = kind(weights, lr=0.1, **{option: value == "True"})
            optimizer.step()
            host = median_us(optimizer.step, False)
            report = gapless.StepReport.from_trace(gapless.profile(optimizer.step, device=device))
            print(f"{f'{kind.__name__}({name})':40} {report.kernels:8g} {host:10.1f}")


if __name__ == "__main__":
    main()
