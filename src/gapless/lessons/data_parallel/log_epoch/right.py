"""Lesson 09: ``log_epoch`` as it is right."""

from __future__ import annotations

import json
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F


def right_log_epoch(rank, world, model, batches, folder, epoch):
    """Sums on the device, one reduction, one read; files by rank 0 alone, each whole before it has its name."""
    sums = torch.zeros(2, device="vgpu")
    with torch.no_grad():
        for x, y in batches:
            sums[0] += F.mse_loss(model(x), y, reduction="sum")
            sums[1] += y.numel()
    dist.all_reduce(sums)
    total, count = sums.tolist()
    loss = total / count
    if rank == 0:
        path = os.path.join(folder, "checkpoint.pt")
        torch.save({"epoch": epoch, "model": model.state_dict()}, path + ".tmp")
        os.replace(path + ".tmp", path)
        path = os.path.join(folder, "metrics.json")
        with open(path + ".tmp", "w") as file:
            json.dump({"epoch": epoch, "loss": loss}, file)
        os.replace(path + ".tmp", path)
    return loss
