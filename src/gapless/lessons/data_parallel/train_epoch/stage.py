"""Lesson 09: how ``train_epoch`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ..stage import WEIGHTS, rank_and_world, watch_batches, weights_of

PASSES, LEFT = "rows of each forward pass", "how `ddp` is left"
AS_IT_WAS, SWITCHED_OFF, OTHER_MODE, OTHER_SETTINGS = (
    "as it was", "switched off", "in another mode", "with other settings of the optimizer")
EXTRA = 2  # columns that only some micro-batches have


class Branched(nn.Module):
    """A network whose layer ``extra`` is used where the rows have more than ``width`` columns: elsewhere it gets no
    gradient."""

    def __init__(self, width: int, columns: int):
        super().__init__()
        self.width = width
        self.first, self.extra = nn.Linear(width, 2 * width), nn.Linear(EXTRA, 2 * width)
        self.last = nn.Linear(2 * width, columns)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x[:, :self.width])
        if x.shape[1] > self.width:
            hidden = hidden + self.extra(x[:, self.width:])
        return self.last(hidden.tanh())


def make_branched(seed: int, width: int, columns: int) -> Branched:
    """On the CPU, with weights of this seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Branched(width, columns)


def leave_gradients(network: nn.Module) -> None:
    """As from something before that nobody has cleared."""
    for parameter in network.parameters():
        parameter.grad = torch.ones_like(parameter)


def micro_batches(x: torch.Tensor, y: torch.Tensor, options: dict, rank: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """A rank's share. ``x`` [micro-batches, ranks, rows, width + EXTRA], ``y`` [micro-batches, ranks, rows, columns]. With
    the option ``branch`` only every third micro-batch has the extra columns, another third on each rank; else all have."""
    width = options["width"]
    wide = [not options["branch"] or (place + rank) % 3 == 0 for place in range(len(x))]
    return [(x[place, rank] if wide[place] else x[place, rank, :, :width], y[place, rank]) for place in range(len(x))]


def ask_train_epoch(function, given, device):
    """The weights on each rank after its epochs, the forward passes in them, and how DDP and the optimizer are left. DDP
    looks for unused parameters only where there are some."""
    options = given.options
    rank, world = rank_and_world()
    dist.init_process_group(rank=rank, world_size=world)
    network = make_branched(options["seed"], options["width"], options["columns"]).to(device)
    ddp = DistributedDataParallel(network, find_unused_parameters=options["branch"]).train(options["training"])
    network.last.train(not options["training"])  # a part may be in the other mode
    modes = [module.training for module in ddp.modules()]
    optimizer = torch.optim.SGD(network.parameters(), lr=options["rate"], momentum=options["momentum"])
    leave_gradients(network)
    passes: list[int] = []
    network.register_forward_hook(lambda _, __, output: passes.append(len(output)))
    batches = micro_batches(given.inputs["x"], given.inputs["y"], options, rank)
    check_batches, settings = watch_batches(batches), _settings(optimizer)
    yield
    for _ in range(options["epochs"]):
        function(ddp, batches, optimizer, options["parts"])
    yield
    check_batches()
    faults = ((not ddp.require_backward_grad_sync, SWITCHED_OFF),
              ([module.training for module in ddp.modules()] != modes, OTHER_MODE),
              (_settings(optimizer) != settings, OTHER_SETTINGS))
    return {WEIGHTS: weights_of(ddp), PASSES: list(passes),
            LEFT: next((words for fault, words in faults if fault), AS_IT_WAS)}


def _settings(optimizer: torch.optim.Optimizer) -> list[dict]:
    """Of each of its groups, with the parameters that it holds."""
    return [{**group, "params": list(map(id, group["params"]))} for group in optimizer.param_groups]
