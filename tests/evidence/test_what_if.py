"""Steps played again without something: against the modelled clock of the program that really goes without it."""

import pytest
import torch

import gapless
from gapless.evidence.traces.trace import Trace
from gapless.evidence.what_if import QUEUE_LENGTH, WhatIf
from gapless.measure.device import host_work


@pytest.fixture(autouse=True)
def device():
    gapless.vgpu.enable("a10g")
    gapless.vgpu.timeline().reset()


def program(*, reads: bool, size: int = 1500, host_ms: float = 0.5, first_read: bool = False):
    """A step with one long product, work of the host, and a read in its middle."""
    x = torch.ones(size, size, device="vgpu:0")

    def step():
        if first_read:
            x[0, 0].item()
        y = x @ x
        host_work(host_ms)
        if reads:
            y[0, 0].item()
        host_work(host_ms)
        return (y + 1).relu()

    return step


def played(step, steps=3) -> WhatIf:
    return WhatIf(gapless.profile(step, steps=steps, device="vgpu:0"))


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("size", [8, 200, 1500])
@pytest.mark.parametrize("host_ms", [0.01, 0.5, 3.0])
def test_played_as_it_was_it_takes_as_long_as_it_did(reads, size, host_ms):
    what_if = played(program(reads=reads, size=size, host_ms=host_ms))
    assert what_if.played_ms == pytest.approx(what_if.actual_ms, rel=1e-6)
    assert len(what_if.waits) == 3 * reads


@pytest.mark.slow
@pytest.mark.parametrize("size, host_ms", [(8, 0.5), (1500, 0.5), (1500, 3.0), (1500, 0.01), (600, 0.1)])
def test_without_its_waits_it_takes_as_long_as_the_program_that_has_none(size, host_ms):
    """But for the copy of the number and the operators around it, which a read has beside its wait."""
    waiting, free = (played(program(reads=reads, size=size, host_ms=host_ms)) for reads in (True, False))
    assert waiting.ms(without_waits=None) == pytest.approx(free.actual_ms, rel=0.02, abs=0.2)
    assert waiting.ms(without_waits=waiting.waits) == waiting.ms(without_waits=None)


def test_one_line_of_two():
    both = played(program(reads=True, first_read=True, host_ms=0.5))
    by_line = {}
    for number, wait in enumerate(both.waits):
        by_line.setdefault(number % 2, []).append(wait)
    one = played(program(reads=False, first_read=True, host_ms=0.5))
    assert both.ms(without_waits=by_line[1]) == pytest.approx(one.actual_ms, rel=0.05, abs=0.2)
    # Each alone saves less than both together, as the other still empties the queue.
    saved = [both.actual_ms - both.ms(without_waits=waits) for waits in by_line.values()]
    assert sum(saved) < both.actual_ms - both.ms(without_waits=None)


def test_without_the_host_the_device_is_left_and_without_the_device_the_host():
    what_if = played(program(reads=True, host_ms=2.0))
    assert what_if.ms(without_device=True) == pytest.approx(3 * 4.0, rel=0.05)
    busy_ms = gapless.StepReport.from_trace(gapless.profile(program(reads=True), steps=3, device="vgpu:0")).device_busy_ms
    assert what_if.ms(without={"host"}) == pytest.approx(3 * busy_ms, rel=0.02)


def test_a_full_queue_holds_the_host():
    x = torch.ones(2000, 2000, device="vgpu:0")

    def step():
        for _ in range(QUEUE_LENGTH + 300):
            x.relu_()

    what_if = played(step, steps=2)
    assert what_if.played_ms == pytest.approx(what_if.actual_ms, rel=1e-3)
    assert what_if.ms(without_device=True) < 0.8 * what_if.actual_ms


@pytest.mark.parametrize("size", [8, 1500])
def test_streams_that_wait_for_each_other(size):
    def crossing(size):
        x, side = torch.ones(size, size, device="vgpu:0"), torch.vgpu.Stream()

        def step():
            y = x @ x
            side.wait_stream(torch.vgpu.current_stream())
            with torch.vgpu.stream(side):
                z = y @ x
            torch.vgpu.current_stream().wait_stream(side)
            return (z + y).sum().item()

        return step

    what_if = played(crossing(size))
    assert what_if.played_ms == pytest.approx(what_if.actual_ms, rel=1e-3)
    assert what_if.ms(without_device=True) == pytest.approx(played(crossing(8)).actual_ms, rel=0.1)


def test_a_trace_without_steps_is_refused():
    with pytest.raises(ValueError, match="no profiled steps"):
        WhatIf(Trace([]))
