"""Time that passes for others does not count. The processes here have a clock that the test sets."""

from types import SimpleNamespace

import pytest

from gapless.grading.sandbox import own_time
from gapless.grading.sandbox.own_time import OwnTime


class Processes:
    """What psutil would tell of some processes, and what the clock on the wall says."""

    def __init__(self, monkeypatch):
        self.now, self.computed = 100.0, {}
        monkeypatch.setattr(own_time.time, "monotonic", lambda: self.now)

    def __iter__(self):
        return iter([SimpleNamespace(pid=pid, cpu_times=lambda used=used: SimpleNamespace(user=used / 2, system=used / 2))
                     for pid, used in self.computed.items()])

    def after(self, seconds, **computed):
        self.now += seconds
        for pid, used in computed.items():
            self.computed[pid] = self.computed.get(pid, 0.0) + used
        return self


@pytest.fixture
def processes(monkeypatch):
    return Processes(monkeypatch)


def test_it_is_the_processor_s_time_on_a_busy_machine_and_the_real_time_of_what_sleeps(processes):
    processes.computed["server"] = 30.0  # before there was anything to count
    time = OwnTime()
    assert time.look(processes) == 0
    assert time.look(processes.after(1, server=1.0)) == 1
    assert time.look(processes.after(4, server=1.0)) == pytest.approx(2)  # three seconds were another's
    assert time.look(processes.after(4, server=0.01)) == pytest.approx(6)  # asleep
    assert time.look(processes.after(1, server=1.0, child=3.0)) == pytest.approx(7)  # four threads do not make it run out sooner
    assert time.look(processes.after(4, server=1.0, new=1.0)) == pytest.approx(9)  # what it has started is its own


def test_who_shares_the_processes_pays_a_share(processes):
    time = OwnTime()
    time.look(processes)
    assert time.look(processes.after(4, a=2.0, b=2.0), at_once=2) == pytest.approx(2)


def test_it_passes_at_a_fifth_of_real_time_at_least(processes):
    time = OwnTime()
    time.look(processes)
    assert time.look(processes.after(10, a=0.6)) == pytest.approx(2)


def test_what_has_ended_takes_nothing_back(processes):
    time = OwnTime()
    time.look(processes.after(0, a=5.0, b=5.0))
    del processes.computed["a"]
    assert time.look(processes.after(2, b=1.0)) == pytest.approx(1)
