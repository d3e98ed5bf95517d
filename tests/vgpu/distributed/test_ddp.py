"""Data parallel training of two processes: the CPU's parameters and gradients, and NCCL's waits."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel.distributed import _MixedPrecision

import gapless
from gapless import vgpu

from .. import together


def network(device, norm=False):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8) if norm else nn.Identity(), nn.ReLU(), nn.Linear(8, 2)).to(device)


def batches(rank, device, steps=3):
    generator = torch.Generator().manual_seed(1)
    return [each.to(device) for each in torch.randn(steps, 2, 6, 4, generator=generator)[:, rank]]


def state(module):
    return [list(module.parameters()), [p.grad for p in module.parameters()], list(module.buffers())]


def train(module, given, optimizer=None):
    optimizer = optimizer or torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    for x in given:
        optimizer.zero_grad()
        module(x).pow(2).mean().backward()
        optimizer.step()
    return state(module)


def trained(**options):
    norm = options.pop("norm", False)
    return lambda rank, device: train(DistributedDataParallel(network(device, norm), **options), batches(rank, device))


def logged(rank, world, ask):
    dist.init_process_group()
    ddp = DistributedDataParallel(network("vgpu:0"))
    train(ddp, batches(rank, "vgpu:0"))
    return ddp._get_ddp_logging_data()["iteration"] if ask else None


def test_a_stopwatch_is_missed_only_where_its_times_are_asked_for(capfd):
    """The C++ warning is written past Python, to the descriptor."""
    gapless.on_gpus(2, logged, False)
    assert "Time stats" not in capfd.readouterr().err
    assert [each.value for each in gapless.on_gpus(2, logged, True)] == [3, 3]
    assert "Time stats" in capfd.readouterr().err


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.third = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x, which):
        return (self.second if which else self.third)(self.first(x))


def branches(**options):
    def program(rank, device):
        module = DistributedDataParallel(Branches().to(device), **options)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for number, x in enumerate(batches(rank, device)):
            optimizer.zero_grad()
            module(x, 0 if options.get("static_graph") else (number + rank) % 2).pow(2).mean().backward()
            optimizer.step()
        return state(module)

    return program


def hooked(name, make):
    def program(rank, device):
        module = DistributedDataParallel(network(device))
        make(module)
        return train(module, batches(rank, device, 4))

    return program


def power_sgd(module):
    options = {"matrix_approximation_rank": 1, "start_powerSGD_iter": 2, "min_compression_rate": 0.1}
    module.register_comm_hook(powerSGD_hook.PowerSGDState(None, **options), powerSGD_hook.powerSGD_hook)


def of_its_own(module):
    def hook(nothing, bucket):
        work = dist.all_reduce(bucket.buffer().div_(2), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    module.register_comm_hook(None, hook)


HOOKS = {"fp16": lambda module: module.register_comm_hook(None, default_hooks.fp16_compress_hook),
         "all reduce": lambda module: module.register_comm_hook(None, default_hooks.allreduce_hook),
         "in C++": lambda module: module._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS),
         "PowerSGD": power_sgd, "its own": of_its_own}


def accumulated(**options):
    def program(rank, device):
        module = DistributedDataParallel(network(device), **options)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for number, x in enumerate(batches(rank, device, 5)):
            if number % 2 == 0:
                with module.no_sync():
                    module(x).pow(2).mean().backward()
            else:
                module(x).pow(2).mean().backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=False)
        return state(module)

    return program


def joined(rank, device):
    module = DistributedDataParallel(network(device))
    optimizer = ZeroRedundancyOptimizer(module.parameters(), torch.optim.Adam, lr=0.1)
    with Join([module, optimizer]):
        return train(module, batches(rank, device, 3 + rank), optimizer)


def sharded_optimizer(rank, device):
    module = DistributedDataParallel(network(device))
    optimizer = ZeroRedundancyOptimizer(module.parameters(), torch.optim.Adam, lr=0.1)
    train(module, batches(rank, device), optimizer)
    optimizer.consolidate_state_dict(0)
    return [state(module), optimizer.state_dict()["state"] if rank == 0 else None]


def one_step(rank, device):
    """Of the waits only those of a step."""
    module = DistributedDataParallel(network(device))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    given = batches(rank, device, 4)
    train(module, given[:3], optimizer)
    if device.type == "vgpu":
        vgpu.timeline().wait_hooks[-1].__self__.clear()
    return train(module, given[3:], optimizer)


def together_normalised(rank, device):
    if device.type == "cpu":  # where there is no SyncBatchNorm: one process with both batches
        return train(network(device, True), [torch.cat(pair) for pair in zip(batches(0, device), batches(1, device))])
    return train(DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(network(device, True))), batches(rank, device))


def as_one(rank, device):
    """Two processes with halves of the batches, over Gloo alone, are one with the whole ones."""
    if device.type == "cpu":
        whole = [torch.cat(pair) for pair in zip(batches(0, device), batches(1, device))]
        return [train(network(device), whole), torch.full((2,), 3.0)]
    gloo, total = dist.new_group(backend="gloo"), torch.ones(2, device=device) * (rank + 1)
    dist.all_reduce(total, group=gloo)
    return [train(DistributedDataParallel(network(device), process_group=gloo), batches(rank, device)), total]


PROGRAMS = {
    "plain": trained(), "as one": as_one, "buffers": trained(norm=True), "one step": one_step,
    "unused parameters": trained(find_unused_parameters=True), "a static graph": trained(static_graph=True),
    "branches": branches(find_unused_parameters=True), "branches in views": branches(find_unused_parameters=True,
                                                                                   gradient_as_bucket_view=True),
    "a static branch": branches(static_graph=True), "views": trained(gradient_as_bucket_view=True),
    "small buckets": trained(bucket_cap_mb=1e-5), "accumulation": accumulated(),
    "accumulation in views": accumulated(gradient_as_bucket_view=True), "join": joined, "ZeRO": sharded_optimizer,
    "SyncBatchNorm": together_normalised, **{f"hook: {name}": hooked(name, make) for name, make in HOOKS.items()},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_two_processes_have_the_cpus_values(name):
    for found in together.outcomes(__name__):
        assert not isinstance(found[name]["cpu"], str), found[name]["cpu"]
        torch.testing.assert_close(found[name]["vgpu"], found[name]["cpu"])


def test_a_step_waits_for_nothing():
    for found in together.outcomes(__name__):
        assert found["one step"]["waits"] == []


def test_its_own_mixed_precision_is_right_from_the_second_step_on(device):
    dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
    try:
        module = nn.Linear(4, 2).to(device)
        config = _MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
        with pytest.warns(UserWarning, match="drop that pass's gradients"):
            whole = DistributedDataParallel(module, mixed_precision=config)
        for _ in range(2):
            module.zero_grad()
            whole(torch.ones(3, 4, device=device)).sum().backward()
        assert module.weight.grad.tolist() == [[3.0] * 4] * 2 and module.weight.grad.dtype == torch.float32
    finally:
        dist.destroy_process_group()
