"""Lesson 09: how ``train_epoch`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ....course.plain import left_alone
from ..stage import LEARNING_RATE, WEIGHTS, rank_and_world, weights_of

PASSES, LEFT = "rows of each forward pass", "how `ddp` is left"
AS_IT_WAS, EVALUATING = "as it was", "in evaluation mode"
EXTRA = 2  # columns that only some micro-batches have


class Branched(nn.Module):
    """A network whose layer ``extra`` is used where the rows have more than ``width`` columns: elsewhere it gets no
    gradient."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width
        self.first, self.extra, self.last = nn.Linear(width, 2 * width), nn.Linear(EXTRA, 2 * width), nn.Linear(2 * width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x[:, :self.width])
        if x.shape[1] > self.width:
            hidden = hidden + self.extra(x[:, self.width:])
        return self.last(hidden.tanh())


def make_branched(seed: int, width: int) -> Branched:
    """On the CPU, with weights of this seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Branched(width)


def micro_batches(x: torch.Tensor, y: torch.Tensor, options: dict, rank: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """A rank's share. ``x`` [micro-batches, ranks, rows, width + EXTRA], ``y`` [micro-batches, ranks, rows, 1]. With the
    option ``branch`` only every third micro-batch has the extra columns, another third on each rank; else all have."""
    width = options["width"]
    wide = [not options["branch"] or (place + rank) % 3 == 0 for place in range(len(x))]
    return [(x[place, rank] if wide[place] else x[place, rank, :, :width], y[place, rank]) for place in range(len(x))]


def ask_train_epoch(function, given, device):
    """The weights on each rank after an epoch, the forward passes in it, and how DDP is left. DDP looks for unused
    parameters only where there are some."""
    options = given.options
    rank, world = rank_and_world()
    dist.init_process_group(rank=rank, world_size=world)
    network = make_branched(options["seed"], options["width"]).to(device)
    ddp = DistributedDataParallel(network, find_unused_parameters=options["branch"])
    optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE)
    passes: list[int] = []
    network.register_forward_hook(lambda _, __, output: passes.append(len(output)))
    batches = micro_batches(given.inputs["x"], given.inputs["y"], options, rank)
    yield
    function(ddp, batches, optimizer, options["parts"])
    yield
    left_alone("batches", len(batches), len(given.inputs["x"]))
    return {WEIGHTS: weights_of(ddp), PASSES: list(passes),
            LEFT: "switched off" if not ddp.require_backward_grad_sync else AS_IT_WAS if ddp.training else EVALUATING}
