"""Lesson 09: how ``wrap`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from ....course.plain import Unusable
from ..stage import LEARNING_RATE, WEIGHTS, make_network, rank_and_world, weights_of

MODE = "mode of the network"


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
        raise Unusable(f"it returned a {type(wrapped).__name__}, not the wrapped model: is there a `return`?")
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=LEARNING_RATE)
    size = options["batch_size"]
    for start in range(rank * size, len(x), world * size):
        optimizer.zero_grad()
        F.mse_loss(wrapped(x[start:start + size].to(device)), y[start:start + size].to(device)).backward()
        optimizer.step()
    yield
    trains = all(module.training for module in wrapped.modules())
    return {WEIGHTS: weights_of(wrapped), MODE: "training" if trains else "evaluation"}
