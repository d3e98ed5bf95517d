"""Lesson 09: how ``make_batches`` is asked, and what it is given.

Runs beside the learner's code: import nothing that knows an answer.
"""

from __future__ import annotations

import os
import random
from contextlib import contextmanager, nullcontext
from unittest.mock import patch

import numpy as np
import torch
import torch.distributed as dist

from ....course.plain import Unusable, left_alone

RAISED = "raised ValueError"
BATCHES, AGREE, GLOBAL = "batches", "two ranks that call it", "the process's own random numbers"
SAME, OTHERS, NOT_AGAIN = "get the same batches", "get different batches", "get other batches when they call it again"
UNTOUCHED, DRAWN, SEEDED = "as before", "drawn from", "seeded"


def ask_make_batches(function, given, device):
    """What two ranks get, whose own random numbers differ, epoch after epoch. With the option ``others``, lengths of as many
    samples, these get batches too. Raises Unusable where both get the same."""
    options = given.options
    yield
    found, moved, alike, again = [], False, False, True
    with _generators_kept():
        for epoch in options["epochs"]:
            answers, after = [], []
            for rank in (0, 1):
                before = _seed_all(1 + 2 * epoch + rank)
                with _on_rank(rank), _another_process(function) if rank else nullcontext():
                    answers.append(_called(function, options, epoch))
                after.append(_state())
                moved = moved or after[-1] != before
            found.append(answers)
            alike = alike or any(one == other for one, other in zip(*after))
            if again and answers[0] != answers[1]:
                _seed_all(1 + 2 * epoch)
                with _on_rank(0):
                    again = answers[0] == _called(function, options, epoch)
        if "others" in options and found[-1][0] == _called(function, {**options, "lengths": options["others"]}, epoch):
            raise Unusable("it returned the same batches for other lengths. If you keep an order from call to call, it is "
                           "wrong for the next lengths: sort by `lengths` in each call.")
    yield
    raised = [answer for answers in found for answer in answers if isinstance(answer, str)]
    if raised:
        return raised[0]
    return {
        BATCHES: [first for first, _ in found],
        AGREE: SAME if all(first == second for first, second in found) else OTHERS if again else NOT_AGAIN,
        GLOBAL: UNTOUCHED if not moved else SEEDED if alike else DRAWN,
    }


def _called(function, options: dict, epoch: int):
    lengths = list(options["lengths"])
    try:
        batches = function(lengths, options["world"], options["batch_size"], epoch)
    except Exception as error:
        if len(options["lengths"]) >= options["world"] and not isinstance(error, Unusable):
            raise
        return RAISED if isinstance(error, ValueError) else f"raised {type(error).__name__}"
    left_alone("lengths", lengths, options["lengths"])
    return _checked(batches, options["world"])


def _checked(batches, world: int) -> list[list[list[int]]]:
    """Raises Unusable where these are no lists of batches, a list a rank."""
    if not isinstance(batches, (list, tuple)):
        raise Unusable(f"it returned a {type(batches).__name__}, not a list with a list of batches for each rank.")
    if len(batches) != world:
        raise Unusable(f"it returned a list of {len(batches)}, not of {world}: a list of batches for each rank.")
    found = []
    for rank, of_rank in enumerate(batches):
        if not isinstance(of_rank, (list, tuple)):
            raise Unusable(f"rank {rank} gets a {type(of_rank).__name__}, not a list of batches.")
        found.append([])
        for batch in of_rank:
            batch = batch.tolist() if isinstance(batch, (torch.Tensor, np.ndarray)) else batch
            if not isinstance(batch, (list, tuple)):
                raise Unusable(f"a batch of rank {rank} is a {type(batch).__name__}, not a list of places in `lengths`.")
            places = [int(place) if isinstance(place, np.integer) else place for place in batch]
            if not all(type(place) is int for place in places):
                raise Unusable(f"a batch of rank {rank} holds something other than integers (int), places in `lengths`.")
            found[-1].append(places)
    return found


@contextmanager
def _on_rank(rank: int):
    """Inside, the launcher and a process group say that this is ``rank``."""
    told = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    with (patch.dict(os.environ, told), patch.object(dist, "is_initialized", lambda: True),
          patch.object(dist, "get_rank", lambda group=None: rank)):
        yield


@contextmanager
def _another_process(function):
    """Inside, the function's cell seems to be in another process: that has its own number, and hashes each text in its own
    way. So the ranks' answers differ where they depend on these, though one process asks for both."""
    def hash_there(value) -> int:
        return hash((value, "another process") if _holds_text(value) else value)

    number, cell = os.getpid() + 1, getattr(function, "__globals__", {})
    own = "hash" in cell
    cell.setdefault("hash", hash_there)
    try:
        with patch.object(os, "getpid", lambda: number):
            yield
    finally:
        if not own:
            cell.pop("hash", None)


def _holds_text(value) -> bool:
    return bool(value) if isinstance(value, (str, bytes)) else (
        isinstance(value, (tuple, frozenset)) and any(map(_holds_text, value)))


@contextmanager
def _generators_kept():
    """The process's own random numbers go on afterwards as if nothing had been inside."""
    of_python, of_numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)


def _seed_all(seed: int):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    return _state()


def _state():
    name, keys, *others = np.random.get_state()
    return random.getstate(), (name, keys.tolist(), *others), torch.get_rng_state().tolist()
