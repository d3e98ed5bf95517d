"""Lesson 09: where ``DataParallel`` stops, and ``DistributedDataParallel`` goes on.

DDP's steps are simulated, on as many virtual GPUs. ``DataParallel`` is not run, as a process has one virtual GPU: its step
is put together from the simulated parts of a step on one GPU, in the order in which it does them
(torch/nn/parallel/data_parallel.py): the network is broadcast from GPU 0; one Python calls all copies, in threads, of which
one at a time runs; backward, each GPU has a thread of C++; the gradients are summed up on GPU 0, which makes the optimizer's
step. Scattering inputs and gathering outputs are left out, which flatters it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ... import vgpu
from ...evidence.pictures.figure import new_figure
from ...measure.several_gpus import on_gpus
from ...vgpu.hardware.times import interconnect

WIDTH, LAYERS, ROWS, LENGTH = 512, 4, 16, 64
COUNTS = (1, 2, 4, 8)
_CARD = "a10g"


@dataclass(frozen=True)
class Parts:
    """Of a step on one GPU, in ms: until the host has called and until the device has done the forward pass, the backward
    pass, and the optimizer's step (host and device); and the bytes of the parameters."""

    forward_host_ms: float
    forward_ms: float
    backward_ms: float
    optimizer_ms: float
    parameter_bytes: int


@dataclass(frozen=True)
class Step:
    """A step of ``DataParallel`` in ms: when each part begins, and the end. ``forwards``: of each GPU, from its first call
    to its last kernel."""

    forwards: tuple[tuple[float, float], ...]
    backward: float
    reduce: float
    optimizer: float
    end: float


def _network() -> nn.Module:
    layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False).to("vgpu")


def _part_ms(work) -> tuple[float, float]:
    """Until ``work()`` has returned, and until the device has done it."""
    torch.vgpu.synchronize()
    timeline = vgpu.timeline()
    timeline.catch_up()
    begun_ns = timeline.host_ns
    work()
    timeline.catch_up()
    returned_ns = timeline.host_ns
    torch.vgpu.synchronize()
    timeline.catch_up()
    return (returned_ns - begun_ns) / 1e6, (timeline.host_ns - begun_ns) / 1e6


def _parts(rank: int, world: int) -> Parts:
    with vgpu.shape_only():
        network = _network()
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
        x = torch.empty(ROWS, LENGTH, WIDTH, device="vgpu")
        for _ in range(2):  # the second finds what the first has made
            optimizer.zero_grad()
            losses = []
            forward = _part_ms(lambda: losses.append(network(x).square().mean()))
            backward = _part_ms(lambda: losses[0].backward())
            step = _part_ms(optimizer.step)
        return Parts(*forward, backward[1], step[1], sum(4 * each.numel() for each in network.parameters()))


def _ddp_step_ms(rank: int, world: int) -> float:
    dist.init_process_group(rank=rank, world_size=world)
    with vgpu.shape_only():
        network = DistributedDataParallel(_network())
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
        x = torch.empty(ROWS, LENGTH, WIDTH, device="vgpu")

        def step():
            optimizer.zero_grad()
            network(x).square().mean().backward()
            optimizer.step()

        return [_part_ms(step)[1] for _ in range(3)][-1]


def put_together(parts: Parts, count: int, card: vgpu.Card) -> Step:
    """The step of ``DataParallel`` on ``count`` GPUs of one machine, each with as many rows as ``parts`` is of."""
    def between_ms(function: str) -> float:
        return interconnect.course(function, parts.parameter_bytes, (0,) * count, card).ns / 1e6 if count > 1 else 0.0

    begun = between_ms("Broadcast")
    forwards = tuple((begun + turn * parts.forward_host_ms, begun + turn * parts.forward_host_ms + parts.forward_ms)
                     for turn in range(count))
    backward = forwards[-1][1]
    reduce = backward + parts.backward_ms
    optimizer = reduce + between_ms("Reduce")
    return Step(forwards, backward, reduce, optimizer, optimizer + parts.optimizer_ms)


def scaling(counts: Sequence[int] = COUNTS) -> tuple[list[Step], list[float]]:
    """The steps of ``DataParallel``, put together, and those of DDP in ms, simulated, on so many A10G."""
    parts, = on_gpus(1, _parts, device=_CARD)
    card = vgpu.find_card(_CARD)
    return ([put_together(parts.value, count, card) for count in counts],
            [max(each.value for each in on_gpus(count, _ddp_step_ms, device=_CARD)) for count in counts])


def draw_scaling(counts: Sequence[int] = COUNTS):
    """A step of ``DataParallel`` on the most GPUs, and how many times as many samples a second both give as one GPU, without
    either, does. The first of ``counts`` is 1.

    Returns the figure. Raises ImportError without matplotlib.
    """
    steps, ddp_ms = scaling(counts)
    alone = steps[0].end
    gains = [[count * alone / ms for count, ms in zip(counts, times)] for times in ([step.end for step in steps], ddp_ms)]
    words = "; ".join(f"{count} GPUs: DataParallel {own:.1f}×, DDP {other:.1f}×"
                      for count, own, other in zip(counts[1:], gains[0][1:], gains[1][1:]))
    figure = new_figure(9.0, 3.4, (
        f"Samples a second compared with one GPU, simulated NVIDIA A10G. {words}. In a step of DataParallel one Python "
        "begins one GPU's forward pass after another's, and GPU 0 alone makes the optimizer's step."))
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": (3, 2)})
    step, names = steps[-1], {}
    bars = [(gpu, start, end, "forward", "#3b7dc4", "") for gpu, (start, end) in enumerate(step.forwards)]
    for gpu in range(len(step.forwards)):
        bars += [(gpu, 0.0, step.forwards[0][0], "broadcast, reduce", "#d9541e", "////"),
                 (gpu, step.backward, step.reduce, "backward", "#16936c", ""),
                 (gpu, step.reduce, step.optimizer, "broadcast, reduce", "#d9541e", "////")]
    bars.append((0, step.optimizer, step.end, "optimizer", "#a87800", ".."))
    for gpu, start, end, name, colour, hatch in bars:
        bar = left.barh(gpu, end - start, left=start, height=0.7, color=colour, hatch=hatch, edgecolor="white",
                        linewidth=0.5)
        names.setdefault(name, bar)
    left.set_yticks(range(len(step.forwards)), [f"GPU {gpu}" for gpu in range(len(step.forwards))], fontsize=8.5)
    left.invert_yaxis()
    left.set_xlabel("ms", fontsize=9)
    left.set_title(f"a step of DataParallel on {counts[-1]} GPUs", loc="left", fontsize=10)
    left.legend(names.values(), names, frameon=False, fontsize=8, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.18))
    for gain, name, mark in zip(gains, ("DataParallel", "DDP"), "os"):
        right.plot(counts, gain, f"{mark}-", label=name)
    right.plot(counts, counts, "--", color="#7f8b97", label="all of it")
    right.set_xticks(counts)
    right.set_xlabel("GPUs", fontsize=9)
    right.set_title("samples a second", loc="left", fontsize=10)
    right.legend(frameon=False, fontsize=8.5)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure
