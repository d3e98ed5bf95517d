"""The time of each step; that TensorBoard's plugin counts the same is tried in test_distributed_tools.py."""

from gapless.evidence.traces.trace import Trace
from gapless.evidence.traces.windows import Window, host_windows, step_windows

from ..kineto_events import call, kernel, op, step


def launched(at, start, dur, number):
    return [call("cudaLaunchKernel", at, 2, number), kernel(start, dur, number)]


def test_a_steps_time_begins_where_the_work_of_the_step_before_ends():
    trace = Trace([step(4, 0, 10), *launched(2, 5, 40, 1), step(5, 10, 10), *launched(12, 45, 30, 2)])
    assert host_windows(trace) == [Window("4", 0, 10), Window("5", 10, 20)]
    assert step_windows(trace) == [Window("4", 0, 45), Window("5", 45, 75)]


def test_where_the_host_is_behind_its_time_counts():
    trace = Trace([step(0, 0, 100), *launched(2, 5, 40, 1), step(1, 100, 100), *launched(120, 125, 30, 2)])
    assert step_windows(trace) == [Window("0", 0, 100), Window("1", 100, 200)]


def test_work_in_flight_is_done_before_the_first_step_begins():
    trace = Trace([kernel(-20, 30, 9), step(0, 0, 10), *launched(2, 15, 10, 1)])
    assert step_windows(trace) == [Window("0", 10, 25)]


def test_steps_that_the_profiler_missed_the_work_of_are_left_out():
    whole = [event for i in range(10) for event in launched(1 + i, 20 + i, 1, 1 + i)]
    assert [each.name for each in step_windows(Trace([step(0, 0, 20), *whole, step(1, 20, 20)]))] == ["0"]
    half = [event for i in range(7) for event in launched(21 + i, 60 + i, 1, 20 + i)]
    assert [each.name for each in step_windows(Trace([step(0, 0, 20), *whole, step(1, 20, 20), *half]))] == ["0"]


def test_a_trace_without_steps_or_work():
    assert step_windows(Trace([])) == host_windows(Trace([kernel(0, 1, 1)])) == []
    assert step_windows(Trace([op("aten::mm", 5, 10), op("aten::mm", 20, 5)])) == [Window("0", 5, 25)]
    assert step_windows(Trace([step(3, 0, 10)])) == [Window("3", 0, 10)]
