"""What only some steps do, such as every tenth."""

import pytest
import torch

from gapless import vgpu
from gapless.audit.afterwards import Afterwards, Seldom, seldom
from gapless.vgpu.host.host_clock import counting


def watched(steps, work):
    vgpu.enable("a10g")
    with counting():
        afterwards = Afterwards(600)
        for number in range(steps):
            work(number)
            assert not afterwards.step_ended()
        return afterwards.stop()


def test_a_wait_in_every_fourth_step_is_told_and_one_in_each_is_not():
    def work(number):
        loss = torch.ones(3000, 3000, device="vgpu").sum()
        if number % 4 == 3:
            loss.item()
        loss.tolist()

    found = watched(16, work)
    (rare,) = seldom(found, 1.0)
    assert rare.every == 4 and rare.line == "loss.item()" and rare.does == "aten::_local_scalar_dense waits"
    assert rare.costs_ms == pytest.approx(rare.ms / 4) and rare.what.startswith("Add up on the GPU")


def test_the_last_step_that_did_not_end_is_left_out():
    vgpu.enable("a10g")
    with counting():
        afterwards = Afterwards(0)
        assert afterwards.step_ended()
        torch.ones(3, device="vgpu").sum().item()
        assert afterwards.stop() == {"steps": 1, "longer_ms": 0.0, "waits": {}, "own": {}}
        assert not vgpu.timeline().wait_hooks and afterwards.stop()["steps"] == 1


def test_the_hosts_own_time():
    facts = {"steps": 20, "waits": {}, "own": {"train.py(3): main": {str(step): 2.0 for step in range(20)},
                                               "train.py(9): save": {"4": 80.0, "11": 60.0, "18": 70.0},
                                               "train.py(12): rest": {"7": 0.1}}}
    assert seldom(facts, 1.0) == [Seldom("train.py:9", None, "the host works or waits", 7, 70.0, 10.5, None, True)]
    assert seldom({}, 1.0) == []
