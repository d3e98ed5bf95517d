"""Random operators on a DTensor over two processes: shards differ, replicas do not, a seed gives the same again."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, empty, randn

from .. import together


def drawn(rank, device):
    if device.type == "cpu":
        return {"shards differ": True, "again": True, "goes on": True, "replicas": True, "dropout": True, "in step": True}
    mesh = init_device_mesh(device.type, (2,))

    def normal(placement, seed=None):
        if seed is not None:
            torch.manual_seed(seed)
        return randn(8, 4, device_mesh=mesh, placements=[placement])

    torch.manual_seed(rank)  # the first use makes the ranks agree
    first, second = normal(Shard(0)).full_tensor(), normal(Shard(0)).full_tensor()
    replicas = [torch.empty(8, 4, device=device) for _ in range(2)]
    dist.all_gather(replicas, normal(Replicate()).to_local())
    dropped = nn.functional.dropout(distribute_tensor(torch.ones(32, 4, device=device), mesh, [Shard(0)])).full_tensor()
    states = [torch.empty_like(torch.get_rng_state(), device=device) for _ in range(2)]
    dist.all_gather(states, torch.get_rng_state().to(device))
    return {"shards differ": not torch.equal(first[:4], first[4:]),
            "again": torch.equal(normal(Shard(0), 7).full_tensor(), normal(Shard(0), 7).full_tensor()),
            "goes on": not torch.equal(first, second), "replicas": torch.equal(*replicas),
            "dropout": not torch.equal(dropped[:16], dropped[16:]) and set(dropped.flatten().tolist()) == {0.0, 2.0},
            "in step": torch.equal(*states)}


def own_generator(rank, device):
    if device.type == "cpu":
        return [True, True]
    whole = empty(8, 4, device_mesh=init_device_mesh(device.type, (2,)), placements=[Shard(0)])
    before = torch.get_rng_state()
    made = [whole.normal_(generator=torch.Generator(device=device).manual_seed(3)).full_tensor().clone() for _ in range(2)]
    return [torch.equal(*made), torch.equal(before, torch.get_rng_state())]


def from_meta(rank, device):
    """A module that is made without memory, cut, and then begun as its author begins it: the standard deviation, rounded."""
    if device.type == "cpu":
        return [0.02, 0.0]
    with torch.device("meta"):
        module = nn.Linear(256, 64)
    fully_shard(module).to_empty(device=device)
    nn.init.normal_(module.weight, std=0.02)
    nn.init.zeros_(module.bias)
    return [round(module.weight.full_tensor().std().item(), 3), module.bias.full_tensor().sum().item()]


PROGRAMS = {"drawn": drawn, "own generator": own_generator, "from meta": from_meta}


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_processes_draw_as_one(name):
    for found in together.outcomes(__name__):
        assert found[name]["vgpu"] == found[name]["cpu"]
