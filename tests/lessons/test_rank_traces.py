"""Made-up traces of ranks: that they are traces, and that every wait in them follows from the plan."""

from dataclasses import replace

import numpy as np
import pytest

from gapless.evidence.ranks.meetings import find_meetings
from gapless.evidence.traces.communication import find_collectives, is_communication
from gapless.evidence.traces.trace import Trace
from gapless.lessons.data_parallel.find_straggler.traces import even_plan, simulate

pytestmark = pytest.mark.slow  # what is particular to this lesson; its solution and stubs are graded in every run


def plan(seed=0, world=4, **more):
    return even_plan(np.random.default_rng(seed), world, **more)


@pytest.mark.parametrize("more", [{}, {"grid": 2}, {"waits": True}, {"older": True}], ids=str)
def test_collectives_meet_and_end_together(more):
    made = plan(**more)
    made = replace(made, kernel=made.kernel * [1, 1.5, 1, 1.2])
    traces = dict(enumerate(simulate(made)))
    meetings = find_meetings(traces)
    assert len(meetings) == made.steps * made.buckets * sum(map(len, made.groups()))
    for meeting in meetings:
        kernels = {rank: each.kernels[0] for rank, each in meeting.of_rank.items()}
        assert len({round(kernel.end_us, 2) for kernel in kernels.values()}) == 1
        last = max(kernel.start_us for kernel in kernels.values())
        assert kernels[meeting.last].start_us == pytest.approx(last, abs=0.002)  # the data moves when the last has come
        assert meeting.transfer_us == pytest.approx(kernels[meeting.last].end_us - last, abs=0.002)


def test_work_of_a_stream_is_one_after_another_and_after_its_launch():
    for trace in simulate(plan(1, grid=2, beside=np.array([0, 3, 0, 1]))):
        launches = {span.args["correlation"]: span for span in trace.spans if span.category == "runtime"}
        reached = {}
        for span in trace.spans:
            if span.category in ("kernel", "memcpy"):
                assert span.start_us >= launches[span.args["correlation"]].start_us
                assert span.start_us >= reached.get(span.thread, 0)
                reached[span.thread] = span.end_us
        assert len(reached) >= 2


def test_blocks_and_operators_are_nested():
    for span in (trace := simulate(plan(2))[0]).spans:
        if span.category in ("op", "runtime", "annotation"):
            around = [other for other in trace.spans if other.thread == span.thread and other.category in ("op", "annotation")]
            assert all(other.end_us <= span.start_us + 1e-6 or other.start_us >= span.end_us - 1e-6
                       or (other.start_us <= span.start_us and span.end_us <= other.end_us + 1e-6)
                       or (span.start_us <= other.start_us and other.end_us <= span.end_us + 1e-6) for other in around)


def test_the_same_plan_gives_the_same_traces_and_traces_are_files(tmp_path):
    first, second = simulate(plan(3)), simulate(plan(3))
    assert [trace.events for trace in first] == [trace.events for trace in second]
    assert [trace.events for trace in first] != [trace.events for trace in simulate(plan(4))]
    first[1].write(tmp_path / "rank1.json.gz")
    assert Trace.read(tmp_path / "rank1.json.gz").events == first[1].events


def test_parts_of_a_layer_are_as_long_as_the_layer_and_names_are_those_of_both_years():
    whole, parts = plan(5, noise=0.0), plan(5, noise=0.0, parts=np.array([1, 4, 1, 1]))
    def computed(trace):
        return sum(span.end_us - span.start_us for span in trace.spans if span.category == "kernel" and not is_communication(span))
    assert computed(simulate(parts)[1]) == pytest.approx(computed(simulate(whole)[1]))
    assert len(simulate(parts)[1].events) > len(simulate(whole)[1].events)
    for older, begin in ((False, "ncclDevKernel_AllReduce"), (True, "ncclKernel_AllReduce")):
        found = find_collectives(simulate(plan(5, older=older))[0])
        assert all(each.kernels[0].name.startswith(begin) for each in found)
