"""Lesson 09: what is right, where the functions as handed out are not."""

from __future__ import annotations

import random
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from ...evidence.straggler import straggler
from .naming import RANK, WHY


def right_make_batches(lengths, world, batch_size, epoch):
    """Samples of like length meet; each step's are dealt out to the ranks like cards, and the steps are shuffled."""
    if len(lengths) < world:
        raise ValueError(f"{len(lengths)} samples for {world} ranks: some rank would have nothing to do")
    draw = random.Random(epoch)  # the same on each rank, and nobody else's
    blurred = [length * draw.uniform(0.9, 1.1) for length in lengths]  # so that neighbours change
    order = sorted(range(len(lengths)), key=blurred.__getitem__)
    steps = -(-len(order) // (world * batch_size))
    cuts = [len(order) * step // steps for step in range(steps + 1)]
    of_steps = [order[start:end] for start, end in zip(cuts, cuts[1:])]
    draw.shuffle(of_steps)
    return [[step[rank::world] for step in of_steps] for rank in range(world)]


def right_find_straggler(traces):
    """Who sets the pace of a run, by :func:`gapless.views.straggler`."""
    found = straggler(dict(enumerate(traces)))
    return {RANK: found.rank, WHY: found.cause}


def right_main(rank, world, model, dataset, batch_size, epochs):
    """A process a GPU: a group, a share of the samples, gradients that are averaged."""
    device = torch.accelerator.current_accelerator()
    dist.init_process_group(rank=rank, world_size=world)
    try:
        model = DistributedDataParallel(model.to(device))
        sampler = DistributedSampler(dataset, world, rank)
        loader = DataLoader(dataset, batch_size, sampler=sampler)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
        for epoch in range(epochs):
            sampler.set_epoch(epoch)
            for x, y in loader:
                loss = F.mse_loss(model(x.to(device)), y.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return model
    finally:
        dist.destroy_process_group()


def right_train_epoch(ddp, batches, optimizer, parts):
    """A step's gradients are sent once, by its last backward pass."""
    for start in range(0, len(batches), parts):
        group = batches[start:start + parts]
        optimizer.zero_grad()
        for place, (x, y) in enumerate(group, 1):
            with nullcontext() if place == len(group) else ddp.no_sync():
                loss = F.mse_loss(ddp(x.to("vgpu")), y.to("vgpu"))
                (loss / len(group)).backward()
        optimizer.step()


def right_wrap(model):
    """BatchNorms whose statistics are those of all ranks' rows."""
    return DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(model).to("vgpu"))
