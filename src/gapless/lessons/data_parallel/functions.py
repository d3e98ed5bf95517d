"""Lesson 09: the functions as handed out."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader


def make_batches(lengths, world, batch_size, epoch):
    """For each of ``world`` ranks its batches of an epoch, lists of places in ``lengths``; each holds at most
    ``batch_size``. Not balanced, in file order, and not as many on each rank."""
    order = list(range(len(lengths)))
    batches = [order[start:start + batch_size] for start in range(0, len(order), batch_size)]
    return [batches[rank::world] for rank in range(world)]


def find_straggler(traces):
    """The rank whose NCCL kernels take longest. That is the one that waits, not the one that is waited for."""
    communicating = [sum(span.duration_ms for span in trace.spans
                         if span.category == "kernel" and span.name.startswith("nccl")) for trace in traces]
    return {"rank": communicating.index(max(communicating)), "why": "network"}


def main(rank, world, model, dataset, batch_size, epochs):
    """A training as for one process that has all GPUs."""
    model = nn.DataParallel(model.to("vgpu"))
    loader = DataLoader(dataset, batch_size * world, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for epoch in range(epochs):
        for x, y in loader:
            loss = F.mse_loss(model(x.to("vgpu")), y.to("vgpu"))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


def train_epoch(ddp, batches, optimizer, parts):
    """Gradients of ``parts`` micro-batches make a step. They are sent after each of these, not once a step."""
    for start in range(0, len(batches), parts):
        group = batches[start:start + parts]
        optimizer.zero_grad()
        for x, y in group:
            loss = F.mse_loss(ddp(x.to("vgpu")), y.to("vgpu"))
            (loss / len(group)).backward()
        optimizer.step()


def wrap(model):
    """DDP alone: each rank's BatchNorm sees its own rows."""
    return DistributedDataParallel(model.to("vgpu"))
