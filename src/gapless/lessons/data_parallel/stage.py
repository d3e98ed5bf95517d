"""Lesson 09: what an exercise's cell finds defined.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from ...course.plain import Unusable, left_alone, same_objects

LEARNING_RATE = 0.2
WEIGHTS, SAMPLES = "weights", "samples"


def make_network(kind: str, seed: int, width: int, columns: int = 1) -> nn.Module:
    """On the CPU, with weights of this seed and so many outputs, of a ``kind`` of ``NETWORKS``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return NETWORKS[kind](width, columns)


def _norm(norm: nn.Module) -> nn.Module:
    """The norm with other weights and statistics than a new one has."""
    if norm.affine:
        nn.init.uniform_(norm.weight, 0.5, 1.5)
    if norm.track_running_stats:
        nn.init.uniform_(norm.running_mean, -1.0, 1.0)
        nn.init.uniform_(norm.running_var, 0.5, 2.0)
    return norm


# Kind → the network of so many inputs and outputs.
NETWORKS = {
    "plain": lambda width, columns: nn.Sequential(nn.Linear(width, 2 * width), nn.Tanh(), nn.Linear(2 * width, columns)),
    "norm": lambda width, columns: nn.Sequential(
        nn.Linear(width, 2 * width), nn.Sequential(_norm(nn.BatchNorm1d(2 * width, eps=0.03, momentum=0.3)), nn.Tanh()),
        nn.Linear(2 * width, columns)),
    "images": lambda width, columns: nn.Sequential(
        nn.Unflatten(1, (1, 1, width)), nn.Conv2d(1, 3, (1, 3), padding=(0, 1)), _norm(nn.BatchNorm2d(3, momentum=None)),
        nn.Tanh(), nn.Unflatten(1, (3, 1)), _norm(nn.BatchNorm3d(3, affine=False)), nn.Flatten(),
        nn.Linear(3 * width, columns)),
    "frozen": lambda width, columns: nn.Sequential(
        nn.Linear(width, 2 * width), _norm(nn.BatchNorm1d(2 * width, track_running_stats=False)), nn.Tanh(),
        nn.Linear(2 * width, width), _norm(nn.BatchNorm1d(width)).requires_grad_(False), nn.Tanh(),
        nn.Linear(width, columns).requires_grad_(False)),
    "frozen at first": lambda width, columns: nn.Sequential(
        nn.Linear(width, 2 * width).requires_grad_(False), nn.Tanh(), nn.Linear(2 * width, columns)),
    "a norm alone": lambda width, columns: _norm(nn.BatchNorm1d(width)),  # as many outputs
}


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


def watch_batches(batches: list) -> Callable[[], None]:
    """What it returns raises Unusable where the list, or a tensor in it, is not what it is now."""
    def values() -> list:
        return [[each.tolist() for each in pair] for pair in pairs]

    pairs = list(batches)
    before = values()

    def check() -> None:
        same_objects("batches", batches, pairs)
        left_alone("batches", values(), before)

    return check


def names() -> dict:
    """Name → what it stands for."""
    return {"torch": torch, "nn": nn, "F": F, "dist": dist, "DataLoader": DataLoader,
            "DistributedSampler": DistributedSampler, "DistributedDataParallel": DistributedDataParallel}
