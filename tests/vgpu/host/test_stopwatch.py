"""What the measured host's clock goes by: the program's own time, and none of the device's."""

import threading
from types import SimpleNamespace

import pytest
import torch

from gapless import vgpu
from gapless.vgpu.host import host_clock, stopwatch
from gapless.vgpu.host.host_clock import counting, measured, uncounted

MS = 1_000_000


class Machine:
    """A clock that only the test moves."""

    def __init__(self):
        self.now_ns = self.cpu_ns = self.waits = 0

    def works(self, ms):
        self.now_ns += ms * MS
        self.cpu_ns += ms * MS

    def sleeps(self, ms):
        self.now_ns += ms * MS
        self.waits += 1

    def is_interrupted(self, ms):
        """Other processes have the core."""
        self.now_ns += ms * MS


@pytest.fixture
def machine(monkeypatch):
    found = Machine()
    vgpu.enable("a10g")
    vgpu.timeline().reset()
    monkeypatch.setattr(stopwatch, "time", SimpleNamespace(
        perf_counter_ns=lambda: found.now_ns, thread_time_ns=lambda: found.cpu_ns))
    monkeypatch.setattr(stopwatch, "_times_given_up", lambda: found.waits)
    monkeypatch.setattr(stopwatch, "entry_costs_ns", lambda: (0, 0))
    with measured():
        yield found


def elapsed_ms(work) -> float:
    vgpu.timeline().catch_up()
    start = vgpu.timeline().host_ns
    work()
    vgpu.timeline().catch_up()
    return (vgpu.timeline().host_ns - start) / MS


def test_work_and_waiting_take_their_time_and_other_processes_work_none(machine):
    with counting():
        assert elapsed_ms(lambda: machine.works(3)) == 3
        assert elapsed_ms(lambda: machine.sleeps(50)) == 50
        assert elapsed_ms(lambda: (machine.works(3), machine.is_interrupted(80))) == 3
    assert elapsed_ms(lambda: machine.works(3)) == 0
    assert host_clock.blocked_ns() == 50 * MS


def test_the_device_takes_what_is_modelled(machine, monkeypatch):
    x = torch.ones(3, device="vgpu")
    modelled_ms = elapsed_ms(lambda: x.add_(1))
    run = vgpu.state.timeline.launch
    monkeypatch.setattr(vgpu.state.timeline, "launch", lambda *args, **options: (machine.works(400), run(*args, **options))[1])
    with counting():
        assert elapsed_ms(lambda: x.add_(1)) == modelled_ms
        with uncounted():
            machine.works(10)
        assert elapsed_ms(lambda: (machine.works(2), x.add_(1), machine.works(1))) == modelled_ms + 3


def test_the_way_into_an_operator_is_left_out(machine, monkeypatch):
    monkeypatch.setattr(stopwatch, "entry_costs_ns", lambda: (MS, MS))
    x = torch.ones(3, device="vgpu")
    modelled_ms = elapsed_ms(lambda: x.add_(1))

    def step(ms):
        machine.works(ms)
        x.add_(1)

    with counting():
        step(1)
        assert elapsed_ms(lambda: step(5)) == modelled_ms + 4
        # What one gap was shorter is taken off the next.
        assert elapsed_ms(lambda: (step(0), step(3))) == 2 * modelled_ms + 1


def test_operators_on_the_cpu_are_no_longer_counted_beside_it(machine):
    with counting():
        assert elapsed_ms(lambda: torch.ones(1000, 1000) @ torch.ones(1000, 1000)) == 0


def test_a_thread_that_has_ended_is_added_where_the_program_stood_still(machine, monkeypatch):
    others = {}
    monkeypatch.setattr(stopwatch._OtherThreads, "_cpu_ns", lambda self: dict(others))
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait)
    thread.start()
    with counting():
        others[thread] = 0
        with uncounted():
            machine.is_interrupted(30)
            others[thread] = 20 * MS
        assert elapsed_ms(lambda: None) == 0  # it may go on for ever
        gate.set()
        thread.join()
        others.clear()

        def device():
            with uncounted():
                pass

        assert elapsed_ms(device) == 20


def test_really_sleeping_really_counts():
    import time

    vgpu.enable("a10g")
    with measured():
        with counting():
            assert elapsed_ms(lambda: time.sleep(0.02)) >= 20
        with counting(), pytest.raises(RuntimeError, match="choose before"), measured():
            pass


def test_the_way_in_is_measured_on_no_clock():
    vgpu.enable("a10g")
    vgpu.timeline().reset()
    forward_ns, backward_ns = stopwatch.entry_costs_ns()
    assert forward_ns > 0 and backward_ns > 0 and vgpu.timeline().host_ns == 0
