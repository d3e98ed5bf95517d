"""Lesson 09: what is right for ``main``."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


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
