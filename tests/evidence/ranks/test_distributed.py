"""The distributed view by hand; what TensorBoard's plugin makes of the same traces is in test_distributed_tools.py."""

import pytest

from gapless.evidence import views
from gapless.evidence.ranks.distributed import RankTime, RankWaiting, distributed_view
from gapless.evidence.traces.trace import Trace, TraceError

from ..kineto_events import call, kernel, op, span, step
from ..rank_events import collective, rank, real_ranks


def a_rank(number, kernel_dur, comm_start, comm_dur, world=2, first=0):
    """A step of 200 µs: a kernel from 20, a collective on another stream; the host's block is from 12 to 28."""
    return rank(number, step(first, 0, 200), op("aten::mm", 2, 5), call("cudaLaunchKernel", 3, 2, 1), kernel(20, kernel_dur, 1),
                *collective(10, comm_start, comm_dur, 2, elements=250), world=world)


def two():
    return [a_rank(0, 50, 60, 100), a_rank(1, 120, 130, 30)]


def test_a_steps_time_has_four_parts():
    view = distributed_view(two())
    # Rank 0: computes 20 … 70; communicates 12 … 28 and 60 … 160. Rank 1: 20 … 140; 12 … 28 and 130 … 160.
    assert view.times == (RankTime(0, None, 50 - 18, 8 + 10, 116 - 18, 200 - 148), RankTime(1, None, 120 - 18, 18, 46 - 18, 200 - 148))
    assert [row.step for row in view.step_times] == ["0", "0"]
    assert all(row.total_us == 200 for row in view.times)


def test_waiting_and_the_table_of_collectives():
    view = distributed_view(two())
    assert view.waiting == (RankWaiting(0, None, 16 + 30, 70), RankWaiting(1, None, 16 + 30, 0))
    first, second = view.collectives
    assert (first.rank, first.name, first.calls, first.total_bytes, first.mean_bytes) == (0, "nccl:all_reduce", 1, 1000, 1000)
    assert (first.latency_us, first.transfer_us, second.latency_us, second.transfer_us) == (116, 46, 46, 46)
    assert view.problem is None


def test_the_printed_view_says_what_it_is_of():
    text = str(distributed_view(two()))
    assert "2 ranks, measured on unknown GPU; ms a step" in text and "nccl:all_reduce" in text
    assert "0.070" in text  # rank 0 waits for 70 µs
    traces = two()
    for trace in traces:
        trace.metadata |= {"gapless": {"simulated": True}, "deviceProperties": [{"name": "A100"}]}
    assert "simulated A100" in str(distributed_view(traces))


def test_without_kernels_the_hosts_operators_compute():
    ranks = [rank(r, step(0, 0, 100), op("aten::mm", 10, 40), span("user_annotation", "gloo:all_reduce", 60, 20 + 10 * r),
                  span("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 2, 6)) for r in range(2)]
    view = distributed_view(ranks)
    assert [(row.computing_us, row.communication_us, row.other_us) for row in view.times] == [(40, 20, 40), (40, 30, 30)]
    assert [row.waiting_us for row in view.waiting] == [0, 10]


def test_ranks_whose_collectives_do_not_match_have_times_and_no_waiting():
    view = distributed_view(real_ranks(), partial=True)
    assert len(view.times) == 2 and view.waiting == view.step_waiting == ()
    assert all(row.transfer_us is None for row in view.collectives)
    assert "record the same steps" in view.problem and f"waiting is unknown: {view.problem}" in str(view)


@pytest.mark.parametrize("traces, words", [
    ([a_rank(0, 50, 60, 100), rank(1, step(0, 0, 10), kernel(0, 5))], "rank 1 has no communication"),
    ([rank(0, *collective(0, 9, 9, 1)[2:]), rank(1, *collective(0, 9, 9, 1)[2:])], "rank 0 has neither steps nor operators"),
    ([a_rank(0, 50, 60, 100, world=3), a_rank(1, 50, 60, 100, world=3)], "rank 2 is missing of 3"),
    ([a_rank(0, 50, 60, 100), a_rank(1, 50, 60, 100, first=7)], "no step was recorded on every rank"),
    ([a_rank(0, 50, 60, 100)], "only rank 0 is there"),
    ([Trace([])] * 2, "does not say of which rank"),
])
def test_what_is_no_run_is_refused(traces, words):
    with pytest.raises(TraceError, match=words):
        views.distributed_view(traces)
