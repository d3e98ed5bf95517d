"""The views by hand; what TensorBoard's plugin makes of the same traces is in test_trace_tools.py."""

import pytest

from gapless.evidence import views
from gapless.evidence.traces.trace import Trace

from .kineto_events import MAIN, call, frame, memcpy, op, span, step


def kernel(start, dur, correlation=None, *, name="gemm", stream=7, device=0, blocks=None, occupancy=None):
    args = {"stream": stream, "device": device}
    for key, value in [("correlation", correlation), ("blocks per SM", blocks), ("est. achieved occupancy %", occupancy)]:
        if value is not None:
            args[key] = value
    return span("kernel", name, start, dur, stream, device, **args)


def launch(at, correlation):
    return call("cudaLaunchKernel", at, 2, correlation)


def change(at, nbytes, *, device=0, device_type=1, tid=MAIN):
    args = {"Device Type": device_type, "Device Id": device, "Bytes": nbytes, "Addr": 1}
    return {"ph": "i", "name": "[memory]", "ts": at, "pid": 1, "tid": tid, "args": args}


def one_step(*work, dur=100):
    """A step of 100 µs whose operator launches the work with correlations 1, 2, …"""
    return Trace([step(0, 0, dur), op("aten::mm", 0, 50),
                  *(launch(2 * number, number) for number in range(1, len(work) + 1)), *work])


# -- utilisation ------------------------------------------------------------------------------------


def test_kernels_of_two_streams_at_once_count_once():
    trace = one_step(kernel(10, 30, 1), kernel(20, 40, 2, stream=20))
    assert views.gpu_utilization(trace) == pytest.approx(0.5)  # 10 … 60 of 100


def test_a_kernel_beyond_the_last_step_makes_the_step_longer():
    assert views.gpu_utilization(one_step(kernel(50, 150, 1))) == pytest.approx(150 / 200)


def test_copies_make_the_step_longer_and_are_no_kernels():
    trace = one_step(kernel(10, 10, 1), memcpy("HtoD (Pinned -> Device)", 60, 140, 2))
    assert views.gpu_utilization(trace) == pytest.approx(10 / 200)


def test_work_launched_outside_the_steps_counts_only_within_their_time():
    before, after = kernel(-20, 40, 90), kernel(90, 60, 91)
    trace = Trace([launch(-30, 90), launch(101, 91), before, after, *one_step(kernel(30, 10, 1)).events])
    # What was in flight ends at 20: the steps' time begins there. What was launched after the step ends it at 100.
    assert views.gpu_utilization(trace) == pytest.approx((10 + 10) / 80)


def test_steps_that_launch_nothing_at_the_end_are_left_out():
    trace = Trace([*one_step(kernel(10, 50, 1)).events, step(1, 100, 100)])
    assert views.gpu_utilization(trace) == pytest.approx(0.5)


def test_a_last_step_with_much_less_work_is_left_out():
    def work(start, count, first):
        return [event for i in range(count) for event in (launch(start + 3 * i, first + i), kernel(start + 5 * i + 5, 5, first + i))]

    steps = [step(0, 0, 100), step(1, 100, 100)]
    assert views.gpu_utilization(Trace([*steps, *work(0, 10, 1), *work(100, 7, 20)])) == pytest.approx(0.5)
    assert views.gpu_utilization(Trace([*steps, *work(0, 10, 1), *work(100, 8, 20)])) == pytest.approx((50 + 40) / 200)


def test_without_steps_the_operators_time_counts():
    trace = Trace([op("aten::mm", 10, 50), launch(20, 1), kernel(30, 50, 1)])
    assert views.gpu_utilization(trace) == pytest.approx(50 / 70)  # 10 … 80


@pytest.mark.parametrize("events", [
    [], [step(0, 0, 100)], [step(0, 0, 100), op("aten::mm", 0, 50), memcpy("HtoD", 10, 5, 1)], [kernel(0, 10, 1, blocks=1.0)],
], ids=["nothing", "a step", "no kernels", "neither steps nor operators"])
def test_what_a_trace_does_not_tell_is_none(events):
    trace = Trace(events)
    assert views.gpu_utilization(trace) is views.sm_efficiency(trace) is views.achieved_occupancy(trace) is None
    assert views.utilization_timeline(trace) == ()
    assert views.memory_by_operator(trace) == []


def test_another_gpu_is_asked_for_by_its_number():
    trace = one_step(kernel(0, 10, 1, device=1), kernel(0, 40, 2, device=3))
    assert views.gpu_utilization(trace) == views.gpu_utilization(trace, device=1) == pytest.approx(0.1)
    assert views.gpu_utilization(trace, device=3) == pytest.approx(0.4)
    assert views.gpu_utilization(trace, device=0) is None


# -- efficiency and occupancy -----------------------------------------------------------------------


def test_sm_efficiency_is_over_the_steps_time_and_a_full_gpu_is_one():
    trace = one_step(kernel(0, 20, 1, blocks=0.8), kernel(20, 20, 2, blocks=64.0), kernel(40, 20, 3))
    assert views.sm_efficiency(trace) == pytest.approx((0.8 * 20 + 20) / 100)  # the third does not tell


def test_blocks_of_kernels_that_overlap_add_up_to_one_at_most():
    trace = one_step(kernel(0, 40, 1, blocks=0.3), kernel(20, 40, 2, blocks=0.9, stream=20))
    assert views.sm_efficiency(trace) == pytest.approx((0.3 * 20 + 1.0 * 20 + 0.9 * 20) / 100)


def test_occupancy_is_over_the_kernels_time():
    trace = one_step(kernel(0, 30, 1, occupancy=10), kernel(40, 10, 2, occupancy=50), kernel(60, 30, 3))
    assert views.achieved_occupancy(trace) == pytest.approx((0.1 * 30 + 0.5 * 10) / 40)


def test_only_the_part_of_a_kernel_within_the_steps_counts():
    late = kernel(80, 60, 9, blocks=0.5, occupancy=20)
    trace = Trace([*one_step(kernel(0, 20, 1, blocks=1.0, occupancy=40)).events, launch(101, 9), late])
    assert views.sm_efficiency(trace) == pytest.approx((20 + 0.5 * 20) / 100)
    assert views.achieved_occupancy(trace) == pytest.approx((0.4 * 20 + 0.2 * 20) / 40)


def test_the_timeline_adds_up_to_the_whole():
    trace = one_step(kernel(10, 30, 1, blocks=0.5), kernel(60, 20, 2, blocks=2.0))
    buckets = views.utilization_timeline(trace, 4)
    assert [(b.start_ms, b.end_ms) for b in buckets] == [(0, 0.025), (0.025, 0.05), (0.05, 0.075), (0.075, 0.1)]
    assert [b.gpu_utilization for b in buckets] == pytest.approx([15 / 25, 15 / 25, 15 / 25, 5 / 25])
    assert [b.sm_efficiency for b in buckets] == pytest.approx([7.5 / 25, 7.5 / 25, 15 / 25, 5 / 25])
    assert views.utilization_timeline(one_step(kernel(0, 100, 1)), 1)[0].sm_efficiency is None
    with pytest.raises(ValueError, match="buckets is 0: draw at least one"):
        views.utilization_timeline(trace, 0)


# -- kernels, operators, memory ---------------------------------------------------------------------


def test_a_kernel_has_one_row_with_means_weighted_by_duration():
    trace = one_step(kernel(0, 30, 1, blocks=0.5, occupancy=10), kernel(30, 10, 2, blocks=2.5, occupancy=50),
                     kernel(40, 5, 3, name="relu"))
    first, second = views.kernel_view(trace)
    assert first == views.KernelRow("gemm", 2, 40.0, 20.0, 30.0, 10.0, pytest.approx(1.0), pytest.approx(0.2))
    assert second == views.KernelRow("relu", 1, 5.0, 5.0, 5.0, 5.0, None, None)


def test_kernels_without_a_duration_have_a_plain_mean():
    row, = views.kernel_view(one_step(kernel(0, 0, 1, blocks=1.0), kernel(0, 0, 2, blocks=3.0)))
    assert (row.total_us, row.blocks_per_sm) == (0.0, 2.0)


def nested():
    """A linear (0 … 100) that calls an addmm (20 … 80), each with a launch of its own."""
    return [step(0, 0, 200), op("aten::linear", 0, 100), op("aten::addmm", 20, 60), launch(30, 1), launch(90, 2),
            kernel(110, 50, 1), memcpy("HtoD (Pinned -> Device)", 160, 7, 2)]


def test_an_operator_has_its_own_time_and_that_of_what_it_called():
    rows = {row.name: row for row in views.top_operators(Trace(nested()))}
    assert rows["aten::addmm"] == views.OperatorRow("aten::addmm", 1, 50.0, 50.0, 58.0, 60.0)
    assert rows["aten::linear"] == views.OperatorRow("aten::linear", 1, 7.0, 57.0, 100.0 - 60 - 2, 100.0)


def test_the_operator_longest_on_the_gpu_comes_first_and_k_are_given():
    trace = Trace(nested())
    assert [row.name for row in views.top_operators(trace, 1)] == ["aten::addmm"]
    assert len(views.top_operators(trace, None)) == 2


def test_memory_is_the_operators_that_changed_it_and_of_those_around():
    trace = Trace([*nested(), change(10, 100), change(25, 64), change(79, -40), change(80, 8), change(150, -500),
                   change(40, 7, device=1), change(40, 7, device_type=0), change(40, 7, tid=5)])
    linear, addmm = views.memory_by_operator(trace)
    assert linear == views.MemoryRow("aten::linear", 1, 132, 108, 172, 108, 3, 2)
    assert addmm == views.MemoryRow("aten::addmm", 1, 24, 24, 64, 64, 1, 1)
    assert [row.allocation_bytes for row in views.memory_by_operator(trace, device=1)] == [7, 7]


# -- sources ----------------------------------------------------------------------------------------


def test_a_kernels_lines_by_its_launches():
    trace = Trace([
        step(0, 0, 100), frame("project/train.py(12): forward", 0, 40), op("aten::mm", 0, 40), launch(10, 1),
        frame("project/train.py(20): loss", 50, 40), op("aten::mm", 50, 40), launch(60, 2), launch(70, 3),
        kernel(20, 10, 1), kernel(70, 30, 2), kernel(100, 5, 3), kernel(200, 1), kernel(300, 1, 77),
    ])
    assert views.source_of(trace, "gemm") == [
        views.SourceRow("project/train.py:20", 2, 35.0), views.SourceRow("project/train.py:12", 1, 10.0),
        views.SourceRow(None, 2, 2.0)]


def test_an_operators_call_stack_is_as_good():
    stack = "torch/nn/functional.py(100): linear;/home/me/net.py(7): forward;/home/me/train.py(3): step"
    trace = Trace([op("aten::mm", 0, 40, **{"Call stack": stack}), launch(10, 1), kernel(20, 10, 1)])
    assert [row.location for row in views.source_of(trace, "gemm")] == ["me/net.py:7"]


def test_a_name_that_no_kernel_has_is_an_error_that_tells_the_nearest():
    with pytest.raises(ValueError, match="no kernel of this trace is called 'gem'; near it: gemm"):
        views.source_of(one_step(kernel(0, 1, 1)), "gem")


def test_a_launch_that_ends_with_its_step_belongs_to_it_whatever_rounding_does():
    start_us = 1e9 + 0.3  # start + duration of the call is, in floating point, a little more than the step's end
    events = [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "pid": 1, "tid": 1, "ts": start_us, "dur": 100.1},
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": start_us, "dur": 100.1},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": start_us + 90, "dur": 10.1 + 1e-5,
         "args": {"correlation": 1}},
        {"ph": "X", "cat": "kernel", "name": "add", "pid": 0, "tid": 7, "ts": start_us + 100, "dur": 100.0,
         "args": {"correlation": 1}},
    ]
    assert views.gpu_utilization(Trace(events, {})) == pytest.approx(100 / 200)


def test_kernels_are_counted_by_the_lines_that_launched_them():
    trace = Trace([step(0, 0, 100), frame("a.py(3): f", 0, 40), launch(5, 1), launch(15, 2), kernel(10, 5, 1),
                   kernel(20, 5, 2), frame("a.py(4): f", 50, 40), launch(55, 3), kernel(60, 5, 3), kernel(70, 5, 77)])
    assert views.kernels_by_line(trace) == {"a.py:3": 2, "a.py:4": 1, None: 1}
