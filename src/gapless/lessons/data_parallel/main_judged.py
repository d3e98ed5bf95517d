"""Lesson 09: what several ranks have trained, against the same training by one process that sees each step's samples of all
ranks as one batch. On the judge's side."""

from __future__ import annotations

import copy

import numpy as np
import torch
import torch.nn.functional as F

from ...course.evidence import Case
from ...course.ranks import ANSWER, COLLECTIVES, RANKS
from .training import LEARNING_RATE, SAMPLES, WEIGHTS, make_network

ALIKE, SHARES, ORDER, BIG_BATCH = "weights of the ranks", "samples of an epoch", "order of the epochs", "weights"
SENT = "gradients sent"
SAME, EACH_ONCE, CHANGES, AS_BIG = "the same on all", "each on one rank, once", "another in each", "as with one big batch"
IN_EACH_STEP, NONE_SENT = "in each step", "none, or not in each step"
TOO_LARGE, TOO_SMALL, LARGER_BATCHES, SMALLER_BATCHES, PILED_UP, LOSS_SUMMED, OTHERS = (
    "as with gradients that are summed", "as with gradients that are divided twice", "as with larger batches on each rank",
    "as with smaller batches on each rank", "as with gradients that are never cleared", "as with a loss that is a sum",
    "others than with one big batch")
DATASETS, ALL_ALIKE, DROPPED = "that of the dataset", "the same in all", "are on no rank"
_TOLERANCE = 1e-3


def wanted_main(case: Case) -> dict:
    """What is found of a right answer."""
    return {SHARES: EACH_ONCE, ORDER: CHANGES, ALIKE: SAME, BIG_BATCH: AS_BIG, SENT: IN_EACH_STEP}


def seen_main(case: Case, plain: dict, notes) -> dict:
    """What is to be compared, in words: right, or else what was found."""
    rows, options = [row[ANSWER] for row in plain[RANKS]], case.options
    samples = [row[SAMPLES] for row in rows]
    shares = _shares(samples, len(case.inputs["x"]), options)
    weights = [{name: np.asarray(value) for name, value in row[WEIGHTS].items()} for row in rows]
    found = {**wanted_main(case), SHARES: shares}
    if shares == EACH_ONCE:
        per_epoch = len(samples[0]) // options["epochs"]
        orders = [tuple(samples[0][epoch * per_epoch:(epoch + 1) * per_epoch]) for epoch in range(options["epochs"])]
        if orders[0] == tuple(sorted(orders[0])):
            found[ORDER] = DATASETS
        elif len(set(orders)) < len(orders):
            found[ORDER] = ALL_ALIKE if len(set(orders)) == 1 else "the same in some"
        found[BIG_BATCH] = _which(case, samples, weights[0])
        steps = options["epochs"] * -(-per_epoch // options["batch_size"])
        parameters = sum(value.size for value in weights[0].values())
        # One collective of many elements is no more than one step's.
        sent = [sum(min(each["elements"], parameters) for each in row[COLLECTIVES]) for row in plain[RANKS]]
        if min(sent) < steps * parameters:
            found[SENT] = NONE_SENT
    if not all(close(each, weights[0]) for each in weights[1:]):
        found[ALIKE] = "different"
    return found


def _shares(samples: list[list[int]], count: int, options: dict) -> str:
    """Whether each sample was taken on one rank, once an epoch; what fills up the ranks' shares may come twice."""
    world, epochs = options["world"], options["epochs"]
    each = -(-count // world)
    if any(len(taken) != each * epochs for taken in samples):
        most, least = max(map(len, samples)), min(map(len, samples))
        if most == least and 0 < least and most < each * epochs and len(set().union(*samples)) > most // epochs:
            return f"{count - most // epochs * world} of {count} {DROPPED}"
        return f"{least} to {most} on a rank in {epochs} epochs, where {each * epochs} are its share"
    for epoch in range(epochs):
        places = [place for taken in samples for place in taken[epoch * each:(epoch + 1) * each]]
        if not all(0 <= place < count for place in places):
            return "some that are none"
        times = np.bincount(places, minlength=count)
        if (times == 0).any():
            return f"{int((times == 0).sum())} of {count} on no rank, others on several"
    return EACH_ONCE


def _which(case: Case, samples: list[list[int]], weights: dict[str, np.ndarray]) -> str:
    """Whose weights these are: a big batch's, or a known mistake's."""
    world = case.options["world"]
    for words, options in ((AS_BIG, {}), (TOO_LARGE, {"scale": world}), (TOO_SMALL, {"scale": 1 / world}),
                           (LARGER_BATCHES, {"batches": world}), (SMALLER_BATCHES, {"batches": 1 / world}),
                           (PILED_UP, {"cleared": False}), (LOSS_SUMMED, {"reduction": "sum"})):
        if close(weights, big_batch(case, samples, **options)):
            return words
    return OTHERS


def big_batch(case: Case, samples: list[list[int]], scale: float = 1.0, batches: float = 1, cleared: bool = True,
              reduction: str = "mean") -> dict[str, np.ndarray]:
    """The weights after a training on the CPU whose batch is in each step what all ranks took. ``scale``: of the gradients;
    ``batches``: as many times as large on each rank; ``cleared``: whether gradients are, before each step; ``reduction``: of
    a rank's loss, whose gradients the ranks average."""
    options = case.options
    model = make_network(options["kind"], options["seed"], options["width"])
    x, y = (torch.from_numpy(np.array(case.inputs[name])) for name in ("x", "y"))
    optimizer = torch.optim.SGD(model.parameters(), lr=scale * LEARNING_RATE)
    size = max(1, int(batches * options["batch_size"]))
    ranks = options["world"] if reduction == "sum" else 1
    per_epoch = len(samples[0]) // options["epochs"]
    for epoch in range(options["epochs"]):
        for start in range(0, per_epoch, size):
            end = min(start + size, per_epoch)
            places = [place for taken in samples for place in taken[epoch * per_epoch + start:epoch * per_epoch + end]]
            if cleared:
                optimizer.zero_grad()
            (F.mse_loss(model(x[places]), y[places], reduction=reduction) / ranks).backward()
            optimizer.step()
    return {name: value.numpy() for name, value in copy.deepcopy(model.state_dict()).items()
            if not name.endswith("num_batches_tracked")}


def close(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return set(one) == set(other) and all(
        one[name].shape == other[name].shape and np.allclose(one[name], other[name], rtol=_TOLERANCE, atol=_TOLERANCE)
        for name in one)
