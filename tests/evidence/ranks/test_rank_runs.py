"""Runs whose truth is known: that it is true, that what looks like it costs nothing, and that guesses by one number are wrong."""

from dataclasses import replace

import numpy as np
import pytest

from gapless.evidence.ranks.meetings import find_meetings
from gapless.evidence.ranks.run import read_ranks
from gapless.evidence.ranks.straggler import straggler
from gapless.evidence.traces.communication import is_communication
from gapless.evidence.traces.windows import step_windows
from gapless.lessons.data_parallel.find_straggler.traces import simulate

from ..rank_runs import COMPUTE, INPUT, NETWORK, rank_run, rank_runs


@pytest.fixture(scope="module", params=[1, 2])
def runs(request):
    return rank_runs(request.param)


def step_us(plan):
    """The mean step on rank 0, after the first."""
    windows = step_windows(simulate(replace(plan, skew=np.zeros(plan.world)))[0])
    return (windows[-1].end_us - windows[0].end_us) / (len(windows) - 1)


def test_what_slows_a_run_slows_it(runs):
    for run in runs:
        gained = step_us(run.plan) / step_us(run.without)
        assert gained == 1 if run.cause is None else gained > 1.1, run


def test_what_looks_like_it_costs_nothing(runs):
    for run in runs:
        plan = run.without
        plain = replace(plan, kernel=np.full_like(plan.kernel, plan.kernel.min()), load=np.full_like(plan.load, plan.load.min()),
                        parts=np.ones_like(plan.parts), beside=np.zeros_like(plan.beside))
        assert step_us(plan) == pytest.approx(step_us(plain), rel=0.02), run


def test_the_view_finds_the_truth(runs):
    for run in runs:
        found = straggler(run.traces)
        assert (found.rank, found.cause) == (run.rank, run.cause), f"{run}\n{found}"


def test_every_kind_is_there_and_a_seed_is_a_course_of_its_own():
    kinds = {(run.cause, run.rank is None) for run in rank_runs(3)}
    assert kinds == {(COMPUTE, False), (INPUT, False), (NETWORK, False), (NETWORK, True), (None, True)}
    assert len({run.rank for seed in range(4) for run in rank_runs(seed) if run.rank is not None}) > 4
    assert [run.name for run in rank_runs(3)] == [run.name for run in rank_runs(3)] != [run.name for run in rank_runs(4)]
    first = rank_runs(5)[0]
    assert first.name == "4 ranks, the loss is read" and first.cause == COMPUTE
    assert [trace.events for trace in first.traces] == [trace.events for trace in first.traces]
    assert sorted(trace.metadata["distributedInfo"]["rank"] for trace in first.traces) == [0, 1, 2, 3]


def most(values):
    return max(values, key=values.get)


def summed(trace, of):
    return sum(span.end_us - span.start_us for span in trace.spans if of(span))


def waits_longest(ranks):
    meetings = find_meetings(ranks)
    return most({rank: sum(each.waiting_us(rank) for each in meetings if rank in each.of_rank) for rank in ranks})


GUESSES = {
    "waits longest": waits_longest,
    "most kernels": lambda ranks: most({r: sum(span.category == "kernel" for span in trace.spans) for r, trace in ranks.items()}),
    "longest kernels": lambda ranks: most(
        {r: summed(trace, lambda span: span.category == "kernel" and not is_communication(span)) for r, trace in ranks.items()}),
    "longest loader": lambda ranks: most(
        {r: summed(trace, lambda span: span.name.startswith("enumerate")) for r, trace in ranks.items()}),
    "longest step": lambda ranks: most({r: max(span.end_us - span.start_us for span in trace.spans
                                               if span.name.startswith("ProfilerStep#")) for r, trace in ranks.items()}),
    "latest by the clock": lambda ranks: most({r: max(span.start_us for span in trace.spans if is_communication(span))
                                               for r, trace in ranks.items()}),
}


def test_no_single_number_is_enough():
    told = [(run, read_ranks(run.traces)) for seed in (1, 2) for run in rank_runs(seed) if run.rank is not None]
    for name, guess in GUESSES.items():
        wrong = sum(guess(ranks) != run.rank for run, ranks in told)
        assert wrong >= len(told) / 3, f"{name}: wrong in {wrong} of {len(told)}"


@pytest.mark.parametrize("cause", [COMPUTE, INPUT, None])
def test_a_run_may_be_asked_for(cause):
    run = rank_run(np.random.default_rng(7), cause, world=3, waits=True, distracted=False, older=True)
    assert (run.plan.world, run.plan.waits, run.plan.older, run.plan.grid) == (3, True, True, 1)
    assert run.name == "3 ranks, the loss is read" and (run.rank is None) == (cause is None)
