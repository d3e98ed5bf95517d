"""Lesson 09: what accumulation, bucket sizes and views of buckets cost or save, simulated."""

from __future__ import annotations

import tempfile
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ....evidence.ranks.distributed import distributed_view
from ....measure.several_gpus import on_gpus

WIDTH, LAYERS, ROWS, PARTS = 1024, 3, 64, 4


def _two_steps(rank: int, world: int, train_epoch: Callable, options: dict) -> int:
    """The most memory that two steps of ``PARTS`` micro-batches take on this rank, in bytes. (DDP learns the order of the
    gradients in the first.)"""
    gpu = torch.device("vgpu:0")
    dist.init_process_group(rank=rank, world_size=world)
    torch.manual_seed(0)
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    ddp = DistributedDataParallel(nn.Sequential(*layers, nn.Linear(WIDTH, 1)).to(gpu), **options)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    for _ in range(2):
        train_epoch(ddp, [(torch.ones(ROWS, WIDTH), torch.ones(ROWS, 1))] * PARTS, optimizer, PARTS)
    return torch.vgpu.max_memory_allocated()


def two_steps_in_words(train_epoch: Callable, options: dict, world: int = 2) -> str:
    """Wrapping a network and two steps, on ``world`` simulated A10G and with DDP's ``options``: rank 0's all-reduces, its
    communication without and with computing beside it, the whole time, and the most memory."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = on_gpus(world, _two_steps, train_epoch, options, device="a10g", traces=folder)
        view = distributed_view({each.rank: each.read_trace() for each in ranks})
    calls = sum(row.calls for row in view.collectives if row.rank == 0 and "reduce" in row.name)
    own = view.times[0]
    return (f"{calls} all-reduces; {own.communication_us / 1e3:.2f} ms of communication with nothing beside it, "
            f"{own.overlap_us / 1e3:.2f} ms beside computing; {own.total_us / 1e3:.2f} ms in all; "
            f"{ranks[0].value / 2**20:.1f} MiB")
