"""Lesson 09: what several ranks have trained, against the same training by one process that sees each step's samples of all
ranks as one batch. On the judge's side."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F

from ...course.evidence import Case
from .stage import LEARNING_RATE, make_network

ALIKE, SHARES, ORDER, BIG_BATCH = "weights of the ranks", "samples of an epoch", "order of the epochs", "weights"
SAME, EACH_ONCE, CHANGES, AS_BIG = "the same on all", "each on one rank, once", "another in each", "as with one big batch"
TOO_LARGE, TOO_SMALL, LARGER_BATCHES, SMALLER_BATCHES, PILED_UP, LOSS_SUMMED, UNTRAINED, OTHERS = (
    "as with gradients that are summed", "as with gradients that are divided twice", "as with larger batches on each rank",
    "as with smaller batches on each rank", "as with gradients that are never cleared", "as with a loss that is a sum",
    "as before the training", "different from one big batch")
WITHOUT_SHORT, ABSOLUTE, BROADCAST = ("as without the short last batches", "as with absolute errors",
                                      "as with each output compared with each target")
WHY_UNTRAINED = ("The weights have not changed. Does the optimizer step, and are the gradients still there then? "
                 "`zero_grad()` between `backward()` and `step()` removes them.")
_TOLERANCE = 1e-3


def big_batch(case: Case, samples: list[list[int]], scale: float = 1.0, batches: float = 1, cleared: bool = True,
              loss: Callable = F.mse_loss, short: bool = True) -> dict[str, np.ndarray]:
    """The weights after a training on the CPU whose batch is in each step what all ranks took. ``scale``: of the gradients;
    ``batches``: as many times as large on each rank; ``cleared``: whether gradients are, before each step; ``loss``: a
    rank's, whose gradients the ranks average; ``short``: whether there is a step for an epoch's short last batch."""
    options = case.options
    model = make_network(options["kind"], options["seed"], options["width"], options["columns"])
    x, y = (torch.from_numpy(np.array(case.inputs[name])) for name in ("x", "y"))
    optimizer = torch.optim.SGD(model.parameters(), lr=scale * LEARNING_RATE)
    size = max(1, int(batches * options["batch_size"]))
    per_epoch = len(samples[0]) // options["epochs"]
    for epoch in range(options["epochs"]):
        for start in range(0, per_epoch, size):
            end = min(start + size, per_epoch)
            if end - start < size and not short:
                continue
            if cleared:
                optimizer.zero_grad()
            of_ranks = [taken[epoch * per_epoch + start:epoch * per_epoch + end] for taken in samples]
            rows = x[[place for places in of_ranks for place in places]]
            outputs = model(rows).split(list(map(len, of_ranks)))  # a norm sees the rows of all
            (sum(loss(output, y[places]) for output, places in zip(outputs, of_ranks)) / len(samples)).backward()
            optimizer.step()
    return {name: value.numpy() for name, value in copy.deepcopy(model.state_dict()).items()
            if not name.endswith("num_batches_tracked")}


def close(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return set(one) == set(other) and all(
        one[name].shape == other[name].shape and np.allclose(one[name], other[name], rtol=_TOLERANCE, atol=_TOLERANCE)
        for name in one)
