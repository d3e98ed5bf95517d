"""Lesson 09: how ``main`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch.utils.data import Dataset

from ....course.plain import Unusable
from ..stage import SAMPLES, WEIGHTS, make_network, rank_and_world, weights_of


class Rows(Dataset):
    """Rows and targets on the host; ``taken``: the places that were asked for, in their order."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor):
        self.x, self.y, self.taken = x, y, []

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, place):
        self.taken.append(int(place))
        return self.x[place], self.y[place]


@contextmanager
def _own_rank(rank: int, world: int) -> Iterator[None]:
    """Inside, ``init_process_group`` with another rank raises Unusable at once. PyTorch would try for seconds to open a port
    that the process of that rank has."""
    own = dist.init_process_group

    @wraps(own)
    def init(*given, **named):
        said = named.get("rank", rank)
        if said not in (rank, -1):
            raise Unusable(f"this process is rank {rank} of {world}, and said that it is rank {said}. Another process has "
                           "that rank already: `dist.init_process_group(rank=rank, world_size=world)`.")
        return own(*given, **named)

    with patch.object(dist, "init_process_group", init):
        yield


def ask_main(function, given, device):
    """The trained weights on each rank, and the samples that it took. Each rank's network begins with weights of its own."""
    options = given.options
    rank, world = rank_and_world()
    model = make_network(options["kind"], options["seed"] + rank, options["width"], options["columns"])
    rows = Rows(given.inputs["x"], given.inputs["y"])
    torch.manual_seed(1000 + rank)
    yield
    with _own_rank(rank, world):
        trained = function(rank, world, model, rows, options["batch_size"], options["epochs"])
    yield
    return {WEIGHTS: weights_of(trained), SAMPLES: list(rows.taken)}
