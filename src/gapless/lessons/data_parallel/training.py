"""Lesson 09: a small training, as the exercises on several ranks get it, and what each rank tells of it.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Dataset

from ...course.plain import Unusable

LEARNING_RATE = 0.2
WEIGHTS, SAMPLES = "weights", "samples"


class Rows(Dataset):
    """Rows and targets on the host; ``taken``: the places that were asked for, in their order."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor):
        self.x, self.y, self.taken = x, y, []

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, place):
        self.taken.append(int(place))
        return self.x[place], self.y[place]


def make_network(kind: str, seed: int, width: int) -> nn.Module:
    """On the CPU, with weights of this seed. ``kind``: "plain", or "norm" with a BatchNorm."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        norm = [nn.BatchNorm1d(2 * width)] if kind == "norm" else []
        return nn.Sequential(nn.Linear(width, 2 * width), *norm, nn.Tanh(), nn.Linear(2 * width, 1))


def rank_and_world() -> tuple[int, int]:
    """As the launcher has told this process."""
    import os

    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def weights_of(model) -> dict:
    """Name → the parameter or buffer, without DDP's prefix. Raises Unusable for what is no model."""
    if not isinstance(model, nn.Module):
        raise Unusable(f"it returned a {type(model).__name__}; the trained model is wanted: is there a `return`?")
    return {name.removeprefix("module."): value.detach() for name, value in model.state_dict().items()
            if not name.endswith("num_batches_tracked")}


def ask_main(function, given, device):
    """The trained weights on each rank, and the samples that it took. Each rank's network begins with weights of its own."""
    options = given.options
    rank, world = rank_and_world()
    model = make_network(options["kind"], options["seed"] + rank, options["width"])
    rows = Rows(given.inputs["x"], given.inputs["y"])
    torch.manual_seed(1000 + rank)
    yield
    trained = function(rank, world, model, rows, options["batch_size"], options["epochs"])
    yield
    return {WEIGHTS: weights_of(trained), SAMPLES: list(rows.taken)}


def ask_wrap(function, given, device):
    """The weights and statistics on each rank after some steps of the network that ``function`` has wrapped. All ranks are
    in a group already; the rows of a step are shared out in runs."""
    options = given.options
    rank, world = rank_and_world()
    model = make_network(options["kind"], options["seed"] + rank, options["width"])
    x, y = given.inputs["x"], given.inputs["y"]
    dist.init_process_group(rank=rank, world_size=world)
    yield
    wrapped = function(model)
    if not isinstance(wrapped, nn.Module):
        raise Unusable(f"it returned a {type(wrapped).__name__}; the wrapped model is wanted: is there a `return`?")
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=LEARNING_RATE)
    size = options["batch_size"]
    for start in range(rank * size, len(x), world * size):
        optimizer.zero_grad()
        F.mse_loss(wrapped(x[start:start + size].to(device)), y[start:start + size].to(device)).backward()
        optimizer.step()
    yield
    return {WEIGHTS: weights_of(wrapped)}
