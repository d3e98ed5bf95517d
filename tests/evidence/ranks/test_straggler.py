"""Who sets the pace, by hand and in runs whose truth is known by playing them again."""

import pytest

from gapless.evidence import views
from gapless.evidence.ranks.straggler import straggler
from gapless.evidence.traces.trace import TraceError

from ..kineto_events import call, kernel, op, span, step
from ..rank_events import collective, rank

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def a_rank(number, computes, begins=20, loads=0, steps=4, world=3, warm_up=0):
    """Steps of 1000 µs: a kernel that begins at ``begins``, and a collective behind it that ends at 900 on every rank."""
    events = []
    for i in range(steps):
        at, dur = 1000 * i, computes if i or not warm_up else warm_up
        events += [step(i, at, 1000), op("aten::mm", at + 2, 5), call("cudaLaunchKernel", at + 3, 2, 2 * i + 1),
                   kernel(at + begins, dur, 2 * i + 1),
                   *collective(at + 10, at + begins + dur, 900 - begins - dur, 2 * i + 2)]
        if loads:
            events.append(span("user_annotation", LOADER, at, loads))
    return rank(number, *events, world=world)


def test_the_rank_that_computes_longest_keeps_the_others():
    found = straggler([a_rank(0, 500), a_rank(1, 800), a_rank(2, 520)])
    assert (found.rank, found.cause) == (1, "compute")
    assert [(each.step, each.rank, each.cause) for each in found.steps] == [(name, 1, "compute") for name in "123"]
    assert found.late_us == pytest.approx(290) and found.share == pytest.approx(0.29)
    assert "Rank 1 sets the pace, by its compute: its kernels take 0.80 ms a step, the others' 0.51 ms" in str(found)


def test_a_gpu_without_a_batch_keeps_the_others():
    found = straggler([a_rank(0, 500), a_rank(1, 500), a_rank(2, 500, begins=320, loads=300)])
    assert (found.rank, found.cause) == (2, "input")
    assert (found.ranks[2].input_us, found.ranks[2].host_us) == (300, 20 + 100)
    assert "its GPU waits for a batch 0.30 ms a step" in found.reason


def test_a_fetch_that_takes_every_host_as_long_is_not_why_one_is_late():
    """As with ``if rank == 0: print(loss.item())``: the host has no lead, so its GPU waits while it fetches."""
    reads = [event for i in range(4) for event in (op("aten::item", 1000 * i + 950, 40),
                                                   call("cudaStreamSynchronize", 1000 * i + 955, 30, 900 + i))]
    late = a_rank(0, 500, begins=320, loads=300)
    found = straggler([rank(0, *late.events, *reads, world=3), a_rank(1, 500, loads=300), a_rank(2, 500, loads=310)])
    assert (found.rank, found.cause, found.waits) == (0, "host", ("aten::item",))
    assert found.reason.endswith("Its host waits for its GPU, and the others' do not: aten::item.")


def test_a_gpu_that_waits_for_its_host_otherwise():
    found = straggler([a_rank(0, 500, begins=320), a_rank(1, 500), a_rank(2, 500)])
    assert (found.rank, found.cause, found.waits) == (0, "host", ())


def test_a_batch_that_is_fetched_while_the_gpu_works_costs_nothing():
    found = straggler([a_rank(0, 500), a_rank(1, 800), a_rank(2, 500, loads=15)])
    assert (found.rank, found.cause) == (1, "compute") and found.ranks[2].input_us == 15


def test_the_first_step_is_nobodys_pace():
    found = straggler([a_rank(0, 750, warm_up=870), a_rank(1, 750), a_rank(2, 750)])
    assert found.cause is None
    # With one step there is nothing else to go by.
    assert straggler([a_rank(0, 870, steps=1), a_rank(1, 750, steps=1), a_rank(2, 750, steps=1)]).rank == 0


def test_another_rank_in_each_step_is_uneven_work():
    """As with batches of sequences of any length: no median shows it."""
    def uneven(number):
        events = []
        for i in range(7):
            one = a_rank(number, 800 if i % 3 == number else 600, steps=1).events
            events += [{**event, "ts": event["ts"] + 1000 * i, "name": event["name"].replace("Step#0", f"Step#{i}"),
                        "args": {**event["args"], **{key: value + 1000 * i for key, value in event["args"].items()
                                                     if key in ("correlation", "External id")}}} for event in one]
        return rank(number, *events, world=3)

    found = straggler([uneven(0), uneven(1), uneven(2)])
    assert (found.rank, found.cause, found.late_us) == (None, "compute", pytest.approx(200))
    assert [each.rank for each in found.steps] == [1, 2, 0, 1, 2, 0]
    assert ("the ranks' compute is uneven. In 6 of 6 steps one is late, in turn rank 1, 2, 0, 1, 2, 0; the others wait 0.20 ms "
            "of 1.00 ms") in found.reason


def test_even_ranks():
    found = straggler([a_rank(0, 800), a_rank(1, 805), a_rank(2, 810)])
    assert (found.rank, found.cause, found.late_us) == (None, None, 0.0)
    assert found.reason == "The ranks are even: none makes the others wait."


def test_transfers_that_nothing_hides():
    found = straggler([a_rank(0, 300), a_rank(1, 302), a_rank(2, 301)])
    assert (found.rank, found.cause) == (None, "network")
    assert "every rank's links alike" in found.reason


@pytest.mark.parametrize("traces, words", [
    ([rank(0, step(0, 0, 10), kernel(0, 5)), rank(1, step(0, 0, 10), kernel(0, 5))], "the ranks never communicate"),
    ([a_rank(0, 500, world=2), a_rank(1, 500, steps=3, world=2)], "collectives"),
    ([a_rank(0, 500), a_rank(1, 500)], "rank 2 is missing"),
])
def test_what_tells_nothing_is_refused(traces, words):
    if "collectives" in words:  # the common steps have the same: they count
        assert views.straggler(traces).cause == "network"
        return
    with pytest.raises(TraceError, match=words):
        views.straggler(traces)
