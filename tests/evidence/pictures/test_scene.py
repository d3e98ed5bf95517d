import pytest

from gapless.evidence.pictures.scene import COPIES, EARLIER, KERNELS, OPERATORS, WAITS, scene_of, short_ms
from gapless.evidence.report import StepReport
from gapless.evidence.traces.trace import Trace

from ..kineto_events import call, kernel, memcpy, op, step, training_steps


def scene(trace, chosen=None):
    return scene_of(StepReport.from_trace(trace), chosen)


def moments(row, kind):
    return [(round(start_ms, 6), round(end_ms, 6)) for start_ms, end_ms in row.kinds[kind]]


def test_host_and_streams_steps_and_waits():
    shown = scene(training_steps(3))
    assert [row.name for row in (shown.host, *shown.streams)] == ["host", "stream 7", "stream 20"]
    assert [name for _, name in shown.step_starts] == ["step 0", "step 1", "step 2"]
    assert [wait.text for wait in shown.waits] == ["aten::item  290 ms"] * 3
    assert moments(shown.host, WAITS) == [(4.005, 294.015), (304.005, 594.015), (604.005, 894.015)]
    assert len(moments(shown.streams[1], COPIES)) == 3 and not moments(shown.streams[1], KERNELS)


def test_no_moment_is_of_two_kinds():
    events = [step(0, 0, 100), op("aten::item", 10, 50), call("cudaStreamSynchronize", 20, 30),
              call("cudaLaunchKernel", 1, 1, 1), kernel(5, 40, 1), memcpy("HtoD (Pinned -> Device)", 30, 20, 2),
              call("cudaMemcpyAsync", 3, 1, 2)]
    shown = scene(Trace(events, {}))
    assert moments(shown.host, WAITS) == [(0.02, 0.05)]
    assert moments(shown.host, OPERATORS) == [(0.01, 0.02), (0.05, 0.06)]
    (row,) = shown.streams
    assert moments(row, KERNELS) == [(0.005, 0.045)] and moments(row, COPIES) == [(0.045, 0.05)]
    assert row.busy_ms == shown.busy_ms == pytest.approx(0.045)


def test_chosen_steps():
    trace = training_steps(5)
    assert [name for _, name in scene(trace).step_starts] == ["step 0", "step 1", "step 2"]
    third = scene(trace, 3)
    assert third.step_starts == [(0.0, "step 3")] and third.end_ms == pytest.approx(300, rel=0.02)
    assert third.waits[0].start_ms == pytest.approx(4.005)
    assert len(scene(trace, [1, 2]).waits) == 2
    with pytest.raises(IndexError, match="step 9 is not in this trace, which has 5 steps"):
        scene(trace, 9)


def test_many_streams_share_the_last_row():
    events = [kernel(10 * i, 5, stream=i) for i in range(1, 13)] + [kernel(500, 5, stream=12)]
    names = [row.name for row in scene(Trace(events, {})).streams]
    assert len(names) == 8 and names[-1] == "5 more" and "stream 12" in names


def test_a_report_without_its_trace_cannot_be_drawn():
    with pytest.raises(ValueError, match="StepReport.from_trace"):
        scene_of(StepReport("A100"))


def test_work_launched_before_the_steps_is_shown_as_such():
    events = [step(0, 1_000, 1_000), op("aten::mm", 1_100, 200), call("cudaLaunchKernel", 1_150, 5, 9), kernel(1_900, 600, 9),
              kernel(600, 700, 1), kernel(1_300, 500, 2),  # launches that are not in the trace
              kernel(100, 200, 3),  # over before the step begins
              kernel(2_600, 100, 4)]  # behind what the step launched: nobody knows
    shown = scene(Trace(events, {}))
    (row,) = shown.streams
    assert moments(row, EARLIER) == [(0, 0.8)] and moments(row, KERNELS) == [(0.9, 1.5)]
    assert shown.earlier_ms == pytest.approx(0.8)


def test_work_of_the_step_before_the_chosen_one_is_launched_before():
    events = [step(0, 0, 100), op("aten::mm", 10, 20), call("cudaLaunchKernel", 12, 5, 1), kernel(20, 150, 1),
              step(1, 100, 100), op("aten::mm", 110, 20), call("cudaLaunchKernel", 112, 5, 2), kernel(180, 50, 2)]
    trace = Trace(events, {})
    assert not moments(scene(trace).streams[0], EARLIER)
    assert moments(scene(trace, 1).streams[0], EARLIER) == [(0, 0.07)]


def test_without_runtime_calls_the_devices_own_times_tell_what_came_before():
    trace = Trace([step(0, 0, 100), kernel(20, 50), step(1, 100, 100), kernel(150, 20), step(2, 200, 50), kernel(210, 20)], {})
    assert not moments(scene(trace, 1).streams[0], EARLIER)


def test_times_in_words():
    assert [short_ms(ms) for ms in (0.00614, 1.234, 12.34, 123.4)] == ["0.0061 ms", "1.23 ms", "12.3 ms", "123 ms"]
