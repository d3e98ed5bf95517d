"""The checks of time, on figures that are made up."""

from types import SimpleNamespace

import pytest

from gapless.course.check import Look
from gapless.course.checks import SpeedUp
from gapless.course.checks.measured import _missing, operators, read_back, sync_count, takes_less
from gapless.course.exercise import Measurement
from gapless.course.verdicts import FAIL, PASS

EXERCISE = SimpleNamespace(step_capitalised="A run", measurement=Measurement(
    None, step_is="a run", max_read_back_bytes=100, least_bytes_ratio=0.9, least_work_ratio=0.3))
EVIDENCE = SimpleNamespace(simulated=True, device_name="a card", main=None)
LOOK = Look(EXERCISE, None, EVIDENCE, None)


def run(ms=10.0, kernels=100, busy_ms=5.0, nbytes=1000.0, copies=(), syncs=(), most_waits=0):
    report = SimpleNamespace(copies=copies, steps=1, kernels=kernels, bus_bytes=nbytes, device_busy_ms=busy_ms,
                             syncs_in_steps=syncs, syncs_per_step=len(syncs))
    return SimpleNamespace(true_ms=ms, host_ms=ms, fewest_kernels=kernels, report=report, most_waits=most_waits)


def measured(learner, best=None, before=None):
    return SimpleNamespace(before=before or run(40.0), after=None, best=best or run(10.0), learner=learner)


@pytest.mark.parametrize("ms, outcome", [(40.0, FAIL), (17.0, FAIL), (16.0, PASS), (5.0, PASS)])
def test_half_of_the_speed_up_is_two_and_a_half_where_the_model_solution_has_four(ms, outcome):
    found, message = SpeedUp(1, at_least=0.5).judge_one(LOOK, measured(run(ms)))
    assert found == outcome and "2.50× is wanted here, the model solution reaches 4.00×" in message


@pytest.mark.parametrize("kernels, busy_ms, says", [(100, 5.0, None), (30, 1.5, None), (29, 5.0, "29 kernels"),
                                                    (100, 1.4, "works for 1.4 ms"), (1, 0.1, "done elsewhere")])
def test_work_that_is_done_elsewhere_counts_for_no_time(kernels, busy_ms, says):
    found = _missing(EXERCISE, EVIDENCE, measured(run(kernels=kernels, busy_ms=busy_ms)))
    assert found is None if says is None else says in found


def test_waits_are_the_most_of_any_call_and_what_is_read_back_is_a_number_or_two():
    waits = [SimpleNamespace(op=None, name="cudaStreamSynchronize"), SimpleNamespace(op="aten::item", name="")]
    assert sync_count(run(syncs=waits, most_waits=3)) == 3 and sync_count(run(syncs=waits)) == 2
    assert operators(run(syncs=waits).report) == ["aten::item", "cudaStreamSynchronize"]
    copies = [SimpleNamespace(bytes=101, direction="DtoH", step=0), SimpleNamespace(bytes=10**6, direction="HtoD", step=0)]
    assert "0.000101 MB a step" in read_back(EXERCISE, measured(run(copies=copies)))
    assert read_back(EXERCISE, measured(run(copies=copies[1:]))) is None


@pytest.mark.parametrize("change, less", [({}, False), ({"kernels": 96}, False), ({"kernels": 94}, True), ({"busy_ms": 4.7}, True),
                                          ({"nbytes": 900.0}, True), ({"kernels": 120, "busy_ms": 5.5}, False)])
def test_a_time_is_less_where_the_device_has_less_to_do(change, less):
    assert takes_less(run(5.0, **change), run(10.0), 0.95, "host_ms") == less
    assert not takes_less(run(9.6, **change), run(10.0), 0.95, "host_ms")
