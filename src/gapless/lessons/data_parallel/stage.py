"""Lesson 09: what an exercise's cell finds defined.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from ...course.plain import Unusable

LEARNING_RATE = 0.2
WEIGHTS, SAMPLES = "weights", "samples"


def make_network(kind: str, seed: int, width: int, columns: int = 1) -> nn.Module:
    """On the CPU, with weights of this seed and so many outputs. ``kind``: "plain", or "norm" with a BatchNorm in a block.
    That has other settings and weights than a new one."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        norm = nn.BatchNorm1d(2 * width, eps=0.03, momentum=0.3)
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        block = [nn.Sequential(norm, nn.Tanh())] if kind == "norm" else [nn.Tanh()]
        return nn.Sequential(nn.Linear(width, 2 * width), *block, nn.Linear(2 * width, columns))


def rank_and_world() -> tuple[int, int]:
    """As the launcher has told this process."""
    import os

    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def weights_of(model) -> dict:
    """Name → the parameter or buffer, without DDP's prefix. Raises Unusable for what is no model."""
    if not isinstance(model, nn.Module):
        raise Unusable(f"it returned a {type(model).__name__}, not the trained model: is there a `return`?")
    return {name.removeprefix("module."): value.detach() for name, value in model.state_dict().items()
            if not name.endswith("num_batches_tracked")}


def names() -> dict:
    """Name → what it stands for."""
    return {"torch": torch, "nn": nn, "F": F, "dist": dist, "DataLoader": DataLoader,
            "DistributedSampler": DistributedSampler, "DistributedDataParallel": DistributedDataParallel}
