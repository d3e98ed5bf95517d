"""Lesson 09: ``log_epoch`` as handed out."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F


def log_epoch(rank, world, model, batches, folder, epoch):
    """The loss of an epoch, with a reduction, a read and a barrier in each step; each rank writes the files."""
    import json

    total = 0.0
    with torch.no_grad():
        for x, y in batches:
            loss = F.mse_loss(model(x), y)
            dist.all_reduce(loss)
            total += loss.item() / world
            dist.barrier()
    loss = total / len(batches)
    torch.save({"epoch": epoch, "model": model.state_dict()}, f"{folder}/checkpoint.pt")
    with open(f"{folder}/metrics.json", "w") as file:
        json.dump({"epoch": epoch, "loss": loss}, file)
    dist.barrier()
    return loss
