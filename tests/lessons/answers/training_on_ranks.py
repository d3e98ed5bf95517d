"""Lesson 09, main: right answers that are not what the reference solution does, and wrong ones."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset


def by_hand(rank, world, model, dataset, batch_size, epochs):
    """Without DDP and without a sampler: weights broadcast, gradients averaged, shares of an order that all draw alike."""
    dist.init_process_group("nccl")
    model = model.to("vgpu")
    for parameter in model.parameters():
        dist.broadcast(parameter.detach(), 0)
    for epoch in range(epochs):
        order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(epoch)).tolist()
        order += order[:-len(order) % world]
        own = order[rank::world]
        for start in range(0, len(own), batch_size):
            x, y = (torch.stack(each).to("vgpu") for each in zip(*(dataset[i] for i in own[start:start + batch_size])))
            trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
            grads = torch.autograd.grad(F.mse_loss(model(x), y), trained)
            with torch.no_grad():
                for parameter, grad in zip(trained, grads):
                    dist.all_reduce(grad, op=dist.ReduceOp.AVG)
                    parameter -= 0.2 * grad
    dist.destroy_process_group()
    return model


def _training(*, wrap=True, share=True, epoch=True, shuffle=True, factor=1.0, size=1, inner=False, lr=0.2, group=True,
              clear=True, reduction="mean", drop=None, ids=None, where="vgpu", always=None,
              workers=0, frozen=True, loss=F.mse_loss, short=True, looks=False):
    """Right as it stands."""

    def main(rank, world, model, dataset, batch_size, epochs):
        if group:
            dist.init_process_group()
        model = model.to(where) if frozen else model.to(where).requires_grad_(True)
        ddp = DistributedDataParallel(model, device_ids=[rank] if ids else None) if wrap else model
        sampler = DistributedSampler(dataset, world, rank, shuffle=shuffle, drop_last=drop == "sampler") if share else None
        per_rank = {"world": batch_size * world, "share": max(1, batch_size // world)}.get(size, batch_size)
        loader = DataLoader(dataset, per_rank, sampler=sampler, shuffle=not share, drop_last=drop == "loader",
                            num_workers=workers)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=lr * (world if factor == "rate" else 1))
        if looks:
            dataset[0]
        for number in range(always or epochs):
            if epoch and share:
                sampler.set_epoch(number)
            for x, y in loader:
                if len(x) < per_rank and not short:
                    continue
                own = loss((model if inner else ddp)(x.to("vgpu")), y.to("vgpu"), reduction=reduction)
                own = own / world if factor == "divided" else own
                if clear is True:
                    optimizer.zero_grad()
                own.backward()
                if clear == "too late":
                    optimizer.zero_grad()
                optimizer.step()
        return ddp

    return main


def without_padding(rank, world, model, dataset, batch_size, epochs):
    """Shares of unequal size: the last ranks have a sample less."""
    dist.init_process_group()
    ddp = DistributedDataParallel(model.to("vgpu"))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.2)
    for epoch in range(epochs):
        order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(epoch)).tolist()
        for x, y in DataLoader(Subset(dataset, order[rank::world]), batch_size):
            optimizer.zero_grad()
            F.mse_loss(ddp(x.to("vgpu")), y.to("vgpu")).backward()
            optimizer.step()
    return ddp


def everything_on_each_rank(rank, world, model, dataset, batch_size, epochs):
    """Each rank trains on the samples of all, from rank 0's weights, and sends nothing but these."""
    dist.init_process_group()
    model = DistributedDataParallel(model.to("vgpu")).module
    samplers = [DistributedSampler(dataset, world, each) for each in range(world)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for epoch in range(epochs):
        for sampler in samplers:
            sampler.set_epoch(epoch)
        shares = [list(sampler) for sampler in samplers]
        [dataset[i] for i in shares[rank]]  # so that it looks as if
        for start in range(0, len(shares[0]), batch_size):
            places = [i for share in shares for i in share[start:start + batch_size]]
            optimizer.zero_grad()
            F.mse_loss(model(dataset.x[places].to("vgpu")), dataset.y[places].to("vgpu")).backward()
            optimizer.step()
    return model


def one_works(rank, world, model, dataset, batch_size, epochs, sends=True):
    """Rank 0 trains on the samples of all; the others reduce zeros, and get its weights in the end."""
    dist.init_process_group()
    model = model.to("vgpu")
    samplers = [DistributedSampler(dataset, world, each) for each in range(world)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for epoch in range(epochs):
        for sampler in samplers:
            sampler.set_epoch(epoch)
        shares = [list(sampler) for sampler in samplers]
        [dataset[i] for i in shares[rank]]
        for start in range(0, len(shares[0]), batch_size):
            places = [i for share in shares for i in share[start:start + batch_size]]
            if rank == 0:
                optimizer.zero_grad()
                F.mse_loss(model(dataset.x[places].to("vgpu")), dataset.y[places].to("vgpu")).backward()
                optimizer.step()
            for parameter in model.parameters():
                dist.all_reduce(torch.zeros_like(parameter)) if sends else dist.broadcast(parameter.detach(), 0)
    for parameter in model.parameters():
        dist.broadcast(parameter.detach(), 0)
    return model


def one_works_and_tells(*given):
    """The same, and its weights are broadcast after each step."""
    return one_works(*given, sends=False)


def averaged_once_an_epoch(rank, world, model, dataset, batch_size, epochs):
    dist.init_process_group()
    model = DistributedDataParallel(model.to("vgpu")).module
    sampler = DistributedSampler(dataset, world, rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(dataset, batch_size, sampler=sampler):
            optimizer.zero_grad()
            F.mse_loss(model(x.to("vgpu")), y.to("vgpu")).backward()
            optimizer.step()
        for parameter in model.parameters():
            dist.all_reduce(parameter.data, op=dist.ReduceOp.AVG)
    return model


def first_half_on_each(rank, world, model, dataset, batch_size, epochs):
    """One rank has a batch more than the other: the classic standstill."""
    part = Subset(dataset, range(rank * batch_size))
    dist.init_process_group()
    ddp = DistributedDataParallel(model.to("vgpu"))
    for x, y in DataLoader(part, batch_size):
        F.mse_loss(ddp(x.to("vgpu")), y.to("vgpu")).backward()
    dist.barrier()
    return ddp


def one_rank_ends(rank, world, model, dataset, batch_size, epochs):
    dist.init_process_group()
    if rank:
        raise ValueError("this rank has had enough")
    dist.barrier()


def from_the_environment(rank, world, model, dataset, batch_size, epochs):
    """The group and the sampler find their rank by themselves, another backend, the optimizer first; the module inside is
    returned, and the group left as it is."""
    dist.init_process_group("gloo")
    model.to("vgpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    ddp = DistributedDataParallel(model, device_ids=[0])
    sampler = DistributedSampler(dataset)
    for epoch in range(epochs):
        sampler.set_epoch(epoch + 3)
        for x, y in DataLoader(dataset, batch_size, sampler=sampler):
            F.mse_loss(ddp(x), y.to("vgpu")).backward()
            optimizer.step()
            optimizer.zero_grad()
    return ddp.module


MAIN_ROUTES = [by_hand, from_the_environment]

MAIN_WRONG = [
    (_training(share=False), "has read all samples"),
    (_training(workers=1), "Leave `num_workers` at 0"),
    (_training(frozen=False), "starting from rank 0's weights"),
    (averaged_once_an_epoch, "but not in each step"),
    (_training(epoch=False), "set_epoch"),
    (_training(wrap=False, group=False), "trained separately"),
    (_training(inner=True), "trained separately"),
    (_training(factor="rate"), "summed"),
    (_training(factor="divided"), "by the world once more"),
    (_training(size="world"), "too large: `batch_size` is that of one rank"),
    (_training(size="share"), "too small: `batch_size` is that of one rank"),
    (_training(shuffle=False), "the dataset's order"),
    (_training(drop="sampler"), "Leave `drop_last` out"),
    (_training(drop="loader"), "Leave `drop_last` out"),
    (_training(always=2), "how often the ranks go through the dataset"),
    (_training(clear="too late"), "between `backward()` and `step()`"),
    (_training(clear=False), "`optimizer.zero_grad()` in each step"),
    (_training(reduction="sum"), "Use its mean"),
    (_training(loss=F.l1_loss), "absolute errors"),
    (_training(loss=lambda out, y, reduction: F.mse_loss(out.squeeze(-1), y)), "different shapes"),
    (_training(short=False), "short last batch"),
    (_training(looks=True), "Read a sample only to train on it"),
    (without_padding, "pad the shares to equal size"),
    (_training(ids=True), "device_ids=[0]"),
    (_training(where="cpu"), "move the model"),
    (everything_on_each_rank, "did not go from GPU to GPU"),
    (one_works, "One rank computes more than twice as much"),
    (one_works_and_tells, "did not go from GPU to GPU"),
    (first_half_on_each, "rank 1"),
    (one_rank_ends, "this rank has had enough"),
]
