"""Lesson 09: what ``log_epoch`` costs an epoch on four ranks, in words."""

from __future__ import annotations

import tempfile
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn

from .... import vgpu
from ....measure.several_gpus import on_gpus

_WORLD, _STEPS, _ROWS, _WIDTH = 4, 20, 256, 512


def _epoch(rank: int, world: int, log_epoch: Callable) -> tuple[int, int, float]:
    """On one rank: collectives, waits and milliseconds of the host in an epoch. The last batch of rank 1 is
    short."""
    dist.init_process_group(rank=rank, world_size=world, device_id=torch.device("vgpu:0"))  # else a barrier warns
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, 1)).to("vgpu")
    sizes = [_ROWS] * (_STEPS - 1) + [8 if rank == 1 else _ROWS]
    batches = [(torch.ones(size, _WIDTH, device="vgpu"), torch.ones(size, 1, device="vgpu")) for size in sizes]
    recording, timeline = vgpu.Recording(lines=False), vgpu.timeline()
    with tempfile.TemporaryDirectory() as folder:
        begun_ns, timeline.recording = timeline.host_ns, recording
        log_epoch(rank, world, model, batches, folder, 1)
        timeline.recording = None
        host_ms = (timeline.host_ns - begun_ns) / 1e6
    collectives = sum(record.category == "kernel" and "Collective name" in record.args for record in recording.records)
    waits = sum(record.name.endswith("Synchronize") for record in recording.records)
    return collectives, waits, host_ms


def epoch_on_four_ranks(log_epoch: Callable) -> str:
    """Collectives, waits and the host's time of an epoch by ``log_epoch``, on rank 0 and on the slowest other one."""
    found = [each.value for each in on_gpus(_WORLD, _epoch, log_epoch, device="a10g")]
    others = max(found[1:], key=lambda row: row[2])
    return "\n".join(f"{who}: {row[0]} collectives, {row[1]} waits, {row[2]:.1f} ms (simulated, {_WORLD} × NVIDIA A10G, "
                     f"{_STEPS} batches)" for who, row in (("rank 0", found[0]), ("the other ranks at most", others)))
