"""Models in pieces over two processes: DTensor, tensor parallel, FSDP of both kinds, pipelines, checkpoints."""

import tempfile

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
import torch.nn.functional as F
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from . import together


def network(device):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).to(device)


def batches(rank, device, steps=3):
    generator = torch.Generator().manual_seed(1)
    return [each.to(device) for each in torch.randn(steps, 2, 6, 4, generator=generator)[:, rank]]


def train(module, given, optimizer=None):
    optimizer, losses = optimizer or torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9), []
    for x in given:
        optimizer.zero_grad()
        loss = module(x).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def mesh(device):
    return init_device_mesh(device.type, (2,))


# -- DTensor ----------------------------------------------------------------------------------------


def pieces(rank, device):
    torch.manual_seed(0)
    over, whole = mesh(device), torch.randn(4, 6).to(device)
    rows, columns = distribute_tensor(whole, over, [Shard(0)]), distribute_tensor(whole, over, [Shard(1)])
    product = columns @ distribute_tensor(whole.t().contiguous(), over, [Shard(0)])
    return [rows.to_local(), rows.redistribute(over, [Shard(1)]).to_local(), rows.redistribute(over, [Replicate()]).to_local(),
            (rows + distribute_tensor(whole, over, [Replicate()])), product, rows.sum()]


def gradient_of_pieces(rank, device):
    torch.manual_seed(0)
    over = mesh(device)
    weight = distribute_tensor(torch.randn(4, 6).to(device), over, [Shard(0)]).requires_grad_()
    (distribute_tensor(torch.ones(3, 4).to(device), over, [Replicate()]) @ weight).pow(2).sum().backward()
    return weight.grad


def tensor_parallel(rank, device):
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel(), "4": ColwiseParallel(output_layouts=Replicate())}
    module = parallelize_module(network(device), mesh(device), plan)
    return [train(module, batches(0, device)), list(module.parameters())]


def sequence_parallel(rank, device):
    torch.manual_seed(0)
    module = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)).to(device)
    plan = {"0": SequenceParallel(sequence_dim=1), "1": ColwiseParallel(input_layouts=Shard(1)),
            "3": RowwiseParallel(output_layouts=Shard(1))}
    module = parallelize_module(module, mesh(device), plan)
    out = module(torch.randn(2, 4, 4).chunk(2, 1)[rank].to(device))
    out.pow(2).sum().backward()
    return [out, [parameter.grad for parameter in module.parameters()]]


def loss_in_pieces(rank, device):
    torch.manual_seed(0)
    plan = {"0": RowwiseParallel(input_layouts=Replicate()),
            "1": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)}
    module = parallelize_module(nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 10)).to(device), mesh(device), plan)
    labels = torch.arange(6).to(device)
    with loss_parallel():
        loss = F.cross_entropy(module(labels), labels)
        loss.backward()
    return [loss, module[0].weight.grad]


# -- FSDP -------------------------------------------------------------------------------------------


def sharded(**options):
    def program(rank, device):
        module, over = network(device), mesh(device)
        for layer in module:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=over, **options)
        fully_shard(module, mesh=over, **options)
        losses = train(module, batches(rank, device), torch.optim.AdamW(module.parameters(), lr=0.1))
        return [losses, list(module.parameters()), [parameter.grad for parameter in module.parameters()]]

    return program


def clipped_and_accumulated(rank, device):
    module, norms = network(device), []
    fully_shard(module, mesh=mesh(device))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for number, x in enumerate(batches(rank, device, 4)):
        module.set_requires_gradient_sync(number % 2 == 1)
        module(x).pow(2).mean().backward()
        if number % 2:
            norms.append(nn.utils.clip_grad_norm_(module.parameters(), 0.1))
            optimizer.step()
            optimizer.zero_grad()
    return [norms, list(module.parameters()), get_model_state_dict(module, options=StateDictOptions(full_state_dict=True))]


def made_without_memory(rank, device):
    with torch.device("meta"):
        module = nn.Linear(4, 4)
    fully_shard(module, mesh=mesh(device))
    module.to_empty(device=device)
    nn.init.ones_(module.weight)
    nn.init.zeros_(module.bias)
    return module(torch.ones(2, 4).to(device))


def first_fsdp(**options):
    def program(rank, device):
        if device.type == "cpu":  # it has no FSDP of the first kind
            module = DistributedDataParallel(network(device))
            return [train(module, batches(rank, device)), list(module.parameters())]
        module = FullyShardedDataParallel(network(device), auto_wrap_policy=ModuleWrapPolicy({nn.Linear}), device_id=device,
                                          **options)
        losses = train(module, batches(rank, device))
        with FullyShardedDataParallel.summon_full_params(module):
            return [losses, [parameter.detach().clone() for parameter in module.parameters()]]

    return program


# -- pipelines and checkpoints ----------------------------------------------------------------------


def pipeline(rank, device):
    torch.manual_seed(0)
    layer = [nn.Linear(4, 4), nn.Linear(4, 4)][rank].to(device)
    schedule = ScheduleGPipe(PipelineStage(layer, rank, 2, device), 2, loss_fn=lambda out, wanted: (out - wanted).pow(2).mean())
    x = torch.arange(16.0).reshape(4, 4).to(device)
    if rank == 0:
        schedule.step(x)
    else:
        schedule.step(target=x * 0)
    return [parameter.grad for parameter in layer.parameters()]


def saved_and_loaded(rank, device):
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, 0, group=dist.new_group(backend="gloo"))
    module, other = network(device), network(device)
    for each in (module, other):
        fully_shard(each, mesh=mesh(device))
    train(module, batches(rank, device))
    checkpoint.save({"module": module.state_dict()}, checkpoint_id=folder[0])
    loaded = {"module": other.state_dict()}
    checkpoint.load(loaded, checkpoint_id=folder[0])
    other.load_state_dict(loaded["module"])
    return [list(module.parameters()), list(other.parameters())]


BF16 = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32}
PROGRAMS = {
    "pieces": pieces, "gradient of pieces": gradient_of_pieces, "tensor parallel": tensor_parallel,
    "sequence parallel": sequence_parallel, "loss in pieces": loss_in_pieces,
    "FSDP2": sharded(), "FSDP2, in memory": sharded(reshard_after_forward=False),
    "FSDP2, bfloat16": sharded(mp_policy=MixedPrecisionPolicy(**BF16)), "FSDP2, clipped": clipped_and_accumulated,
    "FSDP2, from meta": made_without_memory, "FSDP": first_fsdp(), "FSDP, own parameters": first_fsdp(use_orig_params=True),
    "pipeline": pipeline, "checkpoint": saved_and_loaded,
}


@pytest.mark.parametrize("name", [*list(PROGRAMS)[:2], *(pytest.param(name, marks=pytest.mark.slow) for name in list(PROGRAMS)[2:])])
def test_two_processes_have_the_cpus_values(name):
    for found in together.outcomes(__name__):
        assert not isinstance(found[name]["cpu"], str), found[name]["cpu"]
        torch.testing.assert_close(found[name]["vgpu"], found[name]["cpu"])
