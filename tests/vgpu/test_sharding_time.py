"""FSDP2's ``fully_shard`` on the modelled clock: with values and without."""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

import gapless
from gapless import vgpu


def train(rank, world, has_values):
    """ns of a step, and the collectives' kernels by stream."""
    dist.init_process_group()
    device = torch.device("vgpu:0")
    with nullcontext() if has_values else vgpu.shape_only(), vgpu.races("raise"):
        network = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(3)]).to(device)
        for layer in [*network, network]:
            fully_shard(layer)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for _ in range(3):
            torch.vgpu.synchronize()
            begun_ns = vgpu.timeline().host_ns
            recording = vgpu.timeline().recording = vgpu.Recording(lines=False)
            network(torch.randn(8, 256, device=device)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            vgpu.timeline().recording = None
            torch.vgpu.synchronize()
    dist.destroy_process_group()
    kernels = [(record.row, record.name.split("_")[1]) for record in recording.records if record.row != "host" and "nccl" in record.name]
    return vgpu.timeline().host_ns - begun_ns, kernels


def test_parameters_are_gathered_and_gradients_scattered_beside_the_computing():
    (ns, kernels), other = [each.value for each in gapless.on_gpus(2, train, True, device="a100")]
    assert other == (ns, kernels)
    assert gapless.on_gpus(2, train, False, device="a100")[0].value == (ns, kernels)
    names = [name for _, name in kernels]
    assert names.count("ReduceScatter") == 3 and names.count("AllGather") >= 3
    assert 7 not in {stream for stream, _ in kernels}
