"""Lesson 09: how ``main`` is judged."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch.nn.functional as F

from ....course.evidence import Case
from ....course.ranks import ANSWER, COLLECTIVES, COMPUTING, RANKS
from ....words import counted
from ..judged import (
    ABSOLUTE,
    ALIKE,
    AS_BIG,
    BIG_BATCH,
    BROADCAST,
    CHANGES,
    EACH_ONCE,
    LARGER_BATCHES,
    LOSS_SUMMED,
    ORDER,
    OTHERS,
    PILED_UP,
    SAME,
    SHARES,
    SMALLER_BATCHES,
    TOO_LARGE,
    TOO_SMALL,
    UNTRAINED,
    WITHOUT_SHORT,
    big_batch,
    close,
)
from ..stage import SAMPLES, WEIGHTS, make_network

SENT = "gradients sent"
IN_EACH_STEP, NONE_SENT = "in each step", "none, or not in each step"
WORK, SHARED, UNEVEN = "work of the ranks", "about as much for each", "much less on some than on others"
_LEAST_WORK = 0.5  # of the rank with most
DATASETS, ALL_ALIKE, DROPPED, EPOCHS = "that of the dataset", "the same in all", "are on no rank", "those of"
SOME_ALIKE = "the same in some"
UNSEEN, ALL_ON_EACH, UNEQUAL, MORE = ("none that the check has seen", "all on each rank", "unequal shares:",
                                      "more than a rank's share:")


def wanted_main(case: Case) -> dict:
    """What is found of a right answer."""
    return {SHARES: EACH_ONCE, ORDER: CHANGES, ALIKE: SAME, BIG_BATCH: AS_BIG, SENT: IN_EACH_STEP,
            WORK: SHARED}


def seen_main(case: Case, plain: dict, notes) -> dict:
    """What the check compares, in words: right, or else what was found."""
    rows, options = [row[ANSWER] for row in plain[RANKS]], case.options
    samples = [row[SAMPLES] for row in rows]
    shares = _shares(samples, len(case.inputs["x"]), options)
    weights = [{name: np.asarray(value) for name, value in row[WEIGHTS].items()} for row in rows]
    found = {**wanted_main(case), SHARES: shares}
    if shares == EACH_ONCE:
        per_epoch = len(samples[0]) // options["epochs"]
        orders = [_order(taken, per_epoch) for taken in samples]
        found[ORDER] = next((words for words in (DATASETS, ALL_ALIKE, SOME_ALIKE) if words in orders), CHANGES)
        found[BIG_BATCH] = _which(case, samples, weights[0])
        steps = options["epochs"] * -(-per_epoch // options["batch_size"])
        network = make_network(options["kind"], options["seed"], options["width"], options["columns"])
        parameters = sum(value.numel() for value in network.parameters() if value.requires_grad)
        # One collective of many elements is no more than one step's, and what one rank tells all is nobody's mean.
        sent = [sum(min(each["elements"], parameters) for each in row[COLLECTIVES] if each["name"] != "broadcast")
                for row in plain[RANKS]]
        if min(sent) < steps * parameters:
            found[SENT] = NONE_SENT
    work = [row[COMPUTING] for row in plain[RANKS]]
    if min(work) < _LEAST_WORK * max(work):
        found[WORK] = UNEVEN
    if not all(close(each, weights[0]) for each in weights[1:]):
        found[ALIKE] = "different"
    return found


def _order(taken: list[int], per_epoch: int) -> str:
    """How the order of a rank's samples is from epoch to epoch."""
    orders = [tuple(taken[start:start + per_epoch]) for start in range(0, len(taken), per_epoch)]
    if any(order == tuple(sorted(order)) for order in orders):
        return DATASETS
    return {len(orders): CHANGES, 1: ALL_ALIKE}.get(len(set(orders)), SOME_ALIKE)


def _shares(samples: list[list[int]], count: int, options: dict) -> str:
    """Whether each sample was taken on one rank, once an epoch; what fills up the ranks' shares may come twice."""
    world, epochs = options["world"], options["epochs"]
    each = -(-count // world)
    if any(len(taken) != each * epochs for taken in samples):
        most, least = max(map(len, samples)), min(map(len, samples))
        if not most:
            return UNSEEN
        if most == least and most % count == 0 and all(len(set(taken[:count])) == count for taken in samples):
            return ALL_ON_EACH
        if most == least and most % each == 0 and len({place for taken in samples for place in taken[:each]}) == count:
            return f"{EPOCHS} {counted(most // each, 'epoch')}, not {epochs}"
        if most == least and 0 < least and most < each * epochs and len(set().union(*samples)) > most // epochs:
            return f"{count - most // epochs * world} of {count} {DROPPED}"
        kind = f"{UNEQUAL} " if least < most <= each * epochs else f"{MORE} " if least > each * epochs else ""
        return f"{kind}{least} to {most} on a rank in {epochs} epochs, where {each * epochs} are its share"
    for epoch in range(epochs):
        places = [place for taken in samples for place in taken[epoch * each:(epoch + 1) * each]]
        if not all(0 <= place < count for place in places):
            return "some that do not exist"
        times = np.bincount(places, minlength=count)
        if (times == 0).any():
            return f"{int((times == 0).sum())} of {count} on no rank, others on several"
    return EACH_ONCE


def _which(case: Case, samples: list[list[int]], weights: dict[str, np.ndarray]) -> str:
    """Whose weights these are: a big batch's, or a known mistake's."""
    world = case.options["world"]
    for words, options in ((AS_BIG, {}), (TOO_LARGE, {"scale": world}), (TOO_SMALL, {"scale": 1 / world}),
                           (LARGER_BATCHES, {"batches": world}), (SMALLER_BATCHES, {"batches": 1 / world}),
                           (PILED_UP, {"cleared": False}), (LOSS_SUMMED, {"loss": partial(F.mse_loss, reduction="sum")}),
                           (UNTRAINED, {"scale": 0.0}), (WITHOUT_SHORT, {"short": False}), (ABSOLUTE, {"loss": F.l1_loss}),
                           (BROADCAST, {"loss": lambda out, y: (out.squeeze(-1) - y).square().mean()})):
        if close(weights, big_batch(case, samples, **options)):
            return words
    return OTHERS
