"""A function on several ranks: what comes back from each, and what is said where ranks fail or miss each other."""

import re

import numpy as np
import pytest
import torch
import torch.distributed as dist

import gapless
from gapless.course.answers import answer
from gapless.course.checks import Values
from gapless.course.evidence import Case
from gapless.course.exercise import Asked, Exercise, Setting, Teaching
from gapless.course.ranks import ANSWER, COLLECTIVES, COMPUTING, DEVICE, HOST, RANKS
from gapless.course.stage import LocalStage


def ask(function, given, device):
    yield
    found = function(given.inputs["x"])
    yield
    return found


def on_ranks(function, world=2, device="vgpu:a10g"):
    exercise = Exercise("f", function, lambda seed: [], (Values(1),), Teaching(("", "", "")), Asked(ask), setting=Setting(ranks=True))
    case = Case("a case", {"x": np.arange(4, dtype=np.float32)}, {"world": world})
    device = gapless.device(device)
    return answer(exercise, LocalStage(function, device, ask), case, device)


def summed(x):
    dist.init_process_group()
    mine = x * (dist.get_rank() + 1)
    dist.all_reduce(mine)
    dist.destroy_process_group()
    return {"sum": mine, "rank": dist.is_initialized()}


@pytest.mark.parametrize("world", [2, 3])
def test_each_rank_answers_and_the_device_has_seen_what_they_sent(world):
    rows = on_ranks(summed, world).plain[RANKS]
    assert [row[ANSWER]["sum"] for row in rows] == [[0.0, *(i * world * (world + 1) / 2 for i in (1, 2, 3))]] * world
    assert all([each["name"] for each in row[COLLECTIVES]] == ["allreduce"] for row in rows)
    assert all(row[COLLECTIVES][0]["elements"] == 4 and row[COMPUTING] > 0 for row in rows)
    assert len({row[COLLECTIVES][0]["end_ns"] for row in rows}) == 1  # it ends for all at once
    assert all(0 < row[HOST] and row[COLLECTIVES][0]["end_ns"] <= row[DEVICE] for row in rows)


def test_clocks_are_the_same_in_every_run():
    assert on_ranks(summed).plain == on_ranks(summed).plain


def uneven(x):
    dist.init_process_group()
    for _ in range(1 + dist.get_rank()):
        dist.all_reduce(x)


def fails_on_one(x):
    dist.init_process_group()
    if dist.get_rank():
        raise ValueError("the second file is damaged")
    dist.all_reduce(x)


def ends(x):
    raise SystemExit(3)


@pytest.mark.parametrize("function, says", [
    (uneven, r"waits in allreduce of 4 float32.*\[on rank 1 of 2\]"),
    (fails_on_one, r"ValueError: the second file is damaged.*\[on rank 1 of 2\]"),
    (ends, "its process ended before the function returned"),
])
def test_a_rank_that_fails_or_is_missed_is_told(function, says):
    found = on_ranks(function)
    assert found.plain is None
    assert re.search(says, found.error), found.error


def test_the_device_here_is_as_it_was():
    x = torch.ones(3, device=gapless.device("vgpu:a10g"))
    assert on_ranks(lambda x: x.sum()).plain[RANKS][0][ANSWER] == 6.0
    assert x.sum().item() == 3.0


def test_ranks_want_an_ask_and_no_trial():
    with pytest.raises(ValueError, match="has to be an ask"):
        Exercise("f", summed, lambda seed: [], (Values(1),), Teaching(("", "", "")), setting=Setting(ranks=True))
