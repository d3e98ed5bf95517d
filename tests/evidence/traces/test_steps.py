"""Steps, and the work that each of them launched."""

from gapless.evidence.traces.steps import Steps, extent_ms, launches_by_correlation, union_ms, work_in_steps
from gapless.evidence.traces.trace import Trace

from ..kineto_events import call, kernel, op, step


def spans(*events):
    return Trace(list(events), {}).spans


def test_a_step_noted_on_two_threads_is_one():
    steps = Steps(spans(step(0, 0, 100), step(0, 10, 80, tid=200), step(1, 100, 60)))
    assert [span.start_us for span in steps.spans] == [0, 100]
    assert [steps.at(time_us) for time_us in (0, 99, 100, 159, 160)] == [0, 0, 1, 1, None]
    assert steps.host_ms([]) == 0.08  # the median


def test_without_steps_the_hosts_time_is_all_of_it():
    found = spans(op("aten::mm", 100, 50), op("aten::add", 400, 100), kernel(100, 900))
    assert Steps(found).host_ms(found) == 0.4


def test_work_belongs_to_the_step_that_launched_it():
    found = spans(step(0, 0, 100), call("cudaLaunchKernel", 10, 5, 1), kernel(150, 20, 1),
                  step(1, 100, 100), call("cudaLaunchKernel", 110, 5, 2), kernel(180, 20, 2), kernel(190, 5, 3))
    steps, launches = Steps(found), launches_by_correlation(found)
    assert {number: span.start_us for number, span in launches.items()} == {1: 10, 2: 110}
    assert [span.start_us for span in work_in_steps(found, steps, launches)] == [150, 180]
    assert [span.start_us for span in work_in_steps(found, steps, launches, [0])] == [150]


def test_without_launches_the_devices_own_times_tell_the_step():
    found = spans(step(0, 0, 100), kernel(50, 20), step(1, 100, 100), kernel(150, 20), kernel(250, 20))
    assert [span.start_us for span in work_in_steps(found, Steps(found), {})] == [50, 150]


def test_what_overlaps_counts_once():
    found = spans(kernel(0, 100), kernel(50, 100), kernel(60, 10), kernel(300, 100))
    assert (union_ms(found), extent_ms(found), union_ms([]), extent_ms([])) == (0.25, 0.4, 0, 0)
