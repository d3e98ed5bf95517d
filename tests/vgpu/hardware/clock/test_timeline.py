"""The clocks, to the nanosecond, against sums made by hand."""

import gc

import pytest

from gapless.vgpu import CARDS, Host, Recording, Timeline
from gapless.vgpu.hardware.clock.engine import WHOLE

HOST = Host(op_ns=100, view_ns=10, launch_ns=20, sync_ns=5, queue_length=3, pinned_share=1.0, pageable_share=0.5)


@pytest.fixture
def timeline():
    return Timeline(CARDS["a100"], HOST)  # the slot moves 32 bytes a nanosecond


def copy_ns(nbytes, share):
    return Timeline.COPY_NS + round(nbytes / (32 * share))


# -- host and stream --------------------------------------------------------------------------------


def test_a_kernel_starts_when_it_is_launched_and_the_host_goes_on(timeline):
    assert timeline.launch("k", 1000) == 20 + 1000
    assert timeline.host_ns == 20


def test_kernels_of_a_stream_run_one_after_another(timeline):
    timeline.launch("a", 1000)
    assert timeline.launch("b", 50) == 20 + 1000 + 50
    assert timeline.host_ns == 40


def test_a_kernel_on_an_idle_stream_starts_when_the_host_gets_to_it(timeline):
    timeline.launch("a", 10)
    timeline.host_work(500)
    assert timeline.launch("b", 10) == 20 + 500 + 20 + 10


def test_a_wait_ends_with_the_stream_and_costs_the_return(timeline):
    timeline.launch("a", 1000)
    timeline.synchronize_stream()
    assert timeline.host_ns == 1020 + 5


def test_a_wait_for_nothing_costs_the_return(timeline):
    timeline.synchronize_device()
    assert timeline.host_ns == 5


def test_operators_cost_the_host_and_nest(timeline):
    timeline.begin_op("outer")
    timeline.begin_op("view", 10)
    timeline.end_op()
    timeline.begin_op("inner")
    timeline.end_op()
    timeline.end_op()
    assert timeline.host_ns == 100 + 10 + 100


# -- the launch queue -------------------------------------------------------------------------------


def test_a_full_queue_holds_the_next_launch_until_a_kernel_is_done(timeline):
    ends = [timeline.launch("k", 1000) for _ in range(3)]
    assert ends == [1020, 2020, 3020]
    assert timeline.host_ns == 60
    assert timeline.launch("k", 1000) == 4020
    assert timeline.host_ns == 1020 + 20
    timeline.launch("k", 1000)
    assert timeline.host_ns == 2020 + 20


def test_kernels_that_are_done_leave_the_queue(timeline):
    for _ in range(3):
        timeline.launch("k", 10)
    timeline.host_work(1000)
    before = timeline.host_ns
    timeline.launch("k", 10)
    assert timeline.host_ns == before + 20


def test_each_stream_has_its_own_queue(timeline):
    for _ in range(3):
        timeline.launch("k", 1000)
    timeline.current = timeline.new_stream()
    timeline.launch("k", 1000)
    assert timeline.host_ns == 80


# -- copies -----------------------------------------------------------------------------------------

BIG = 320_000  # bytes: 10 µs from pinned memory, 20 µs from pageable
SMALL = 64 * 1024


@pytest.mark.parametrize("direction", ["HtoD", "DtoH"])
@pytest.mark.parametrize("pinned, share", [(True, 1.0), (False, 0.5)])
def test_a_blocking_copy_waits_for_the_stream_and_itself(timeline, direction, pinned, share):
    timeline.launch("k", 5000)
    timeline.copy(direction, BIG, pinned=pinned, blocking=True)
    assert timeline.host_ns == 20 + 5000 + copy_ns(BIG, share) + 5


@pytest.mark.parametrize("direction", ["HtoD", "DtoH"])
def test_a_pinned_copy_that_may_not_block_does_not(timeline, direction):
    timeline.launch("k", 5000)
    timeline.copy(direction, BIG, pinned=True, blocking=False)
    assert timeline.host_ns == 40
    assert timeline.current.ready_ns == 20 + 5000 + copy_ns(BIG, 1.0)


@pytest.mark.parametrize("direction", ["HtoD", "DtoH"])
def test_a_big_pageable_copy_blocks_whatever_was_asked(timeline, direction):
    timeline.launch("k", 5000)
    timeline.copy(direction, BIG, pinned=False, blocking=False)
    assert timeline.host_ns == 20 + 5000 + copy_ns(BIG, 0.5) + 5


def test_a_small_pageable_copy_to_the_device_is_put_aside(timeline):
    timeline.launch("k", 5000)
    timeline.copy("HtoD", SMALL, pinned=False, blocking=False)
    assert timeline.host_ns == 40
    assert timeline.current.ready_ns == 20 + 5000 + copy_ns(SMALL, 0.5)


def test_a_small_copy_begins_a_moment_after_it_was_put_aside(timeline):
    timeline.copy("HtoD", SMALL, pinned=False, blocking=False)
    assert timeline.host_ns == 20
    assert timeline.current.ready_ns == 20 + Timeline.PUT_ASIDE_NS + copy_ns(SMALL, 0.5)


@pytest.mark.parametrize("direction, nbytes, blocking", [("HtoD", SMALL + 1, False), ("HtoD", 4, True), ("DtoH", 4, False)])
def test_other_pageable_copies_wait_however_small(timeline, direction, nbytes, blocking):
    timeline.launch("k", 5000)
    timeline.copy(direction, nbytes, pinned=False, blocking=blocking)
    assert timeline.host_ns > 5000


# -- streams and events -----------------------------------------------------------------------------


def test_streams_run_side_by_side(timeline):
    timeline.launch("a", 1000)
    timeline.current = timeline.new_stream()
    assert timeline.launch("b", 1000, share=WHOLE // 2) == 20 + 1000 + 1000  # the first fills the card
    timeline.current = timeline.new_stream()
    assert timeline.launch("c", 1000, share=WHOLE // 2) == 20 + 1000 + 1000  # both have room for one another
    assert timeline.device_ready_ns == 2020


def test_what_one_stream_had_queued_before_there_was_a_second_keeps_its_time(timeline):
    timeline.launch("a", 1000, share=WHOLE // 4)
    timeline.current = timeline.new_stream()
    assert timeline.launch("b", 1000) == 1020 + 1000 - 980 * 3 // 4  # with three quarters until then


def test_copies_run_beside_kernels_and_each_direction_by_itself(timeline):
    timeline.launch("k", 50_000)
    alone = copy_ns(BIG, 1.0)
    for direction, begin in (("HtoD", 40), ("DtoH", 60), ("HtoD", 40 + alone)):
        timeline.current = timeline.new_stream()
        assert timeline.copy(direction, BIG, pinned=True, blocking=False) == begin + alone


def test_one_stream_is_never_slowed(timeline):
    alone = [timeline.launch("k", ns, share=share) for ns, share in ((1000, WHOLE), (500, 1), (2000, 300))]
    timeline.reset()
    stream = timeline.new_stream()
    assert [timeline.launch("k", ns, share=share) for ns, share in ((1000, WHOLE), (500, 1), (2000, 300))] == alone
    assert stream.ready_ns == 0


# -- what is due ------------------------------------------------------------------------------------


def test_what_is_due_happens_when_the_clock_has_come_to_it_and_in_its_order(timeline):
    found = []
    for ns, name in ((300, "late"), (100, "early"), (300, "later"), (0, "at once")):
        timeline.at(ns, lambda name=name: found.append((name, timeline.host_ns)))
    assert found == [("at once", 0)]
    timeline.host_work(99)
    assert len(found) == 1
    timeline.host_work(1)
    timeline.launch("k", 1000)
    timeline.synchronize_stream()
    assert found[1:] == [("early", 100), ("late", 1125), ("later", 1125)]


def test_a_reset_brings_what_is_due_and_a_fork_forgets_it(timeline):
    found = []
    timeline.at(100, lambda: found.append("first"))
    timeline.reset()
    timeline.at(100, lambda: found.append("second"))
    timeline.forget_due()
    timeline.host_work(100)
    assert found == ["first"]


# -- what comes before what -------------------------------------------------------------------------


def test_what_the_host_has_waited_for_comes_before_all_that_follows(timeline):
    first, side = timeline.current, timeline.new_stream()
    timeline.launch("a", 10)
    timeline.launch("b", 10)
    last = first.count
    assert timeline.is_ordered(first.number, last, first)
    assert not timeline.is_ordered(first.number, last, side)
    timeline.host_work(10**6)  # that it is over is no order
    assert not timeline.is_ordered(first.number, last, side)
    timeline.synchronize_stream()
    assert timeline.is_ordered(first.number, last, side)


def test_an_event_orders_what_was_before_it_for_who_waits(timeline):
    first, middle, last = timeline.current, timeline.new_stream(), timeline.new_stream()
    timeline.launch("a", 10)
    before = first.count
    timeline.stream_wait_event(timeline.record_event(), middle)
    timeline.launch("b", 10)
    assert timeline.is_ordered(first.number, before, middle)
    assert not timeline.is_ordered(first.number, first.count, middle)
    assert not timeline.is_ordered(first.number, before, last)
    timeline.stream_wait_event(timeline.record_event(middle), last)  # by way of the second
    assert timeline.is_ordered(first.number, before, last)


def test_an_event_that_is_reached_orders_when_somebody_asks(timeline):
    side, first = timeline.new_stream(), timeline.current
    timeline.launch("a", 10)
    mark = timeline.record_event()
    timeline.host_work(1000)
    assert not timeline.is_ordered(first.number, first.count, side)
    assert timeline.query(mark)
    assert timeline.is_ordered(first.number, first.count, side)
    assert timeline.host_ns == 20 + 1000 + Timeline.QUERY_NS


def test_after_a_reset_all_that_was_is_over(timeline):
    first, side = timeline.current, timeline.new_stream()
    timeline.launch("a", 10)
    before = first.count
    timeline.reset()
    timeline.launch("b", 10)
    assert timeline.is_ordered(first.number, before, side)
    assert not timeline.is_ordered(first.number, first.count, side)


def test_a_stream_waits_for_an_event_of_another_and_the_host_does_not(timeline):
    timeline.launch("a", 1000)
    event = timeline.record_event()
    assert event.ns == 1020
    other = timeline.new_stream()
    timeline.stream_wait_event(event, other)
    timeline.current = other
    assert timeline.launch("b", 10) == 1030
    assert timeline.host_ns == 40


def test_an_event_marks_what_was_queued_before_it(timeline):
    timeline.launch("a", 1000)
    event = timeline.record_event()
    timeline.launch("b", 1000)
    timeline.synchronize_event(event)
    assert timeline.host_ns == 1020 + 5


def test_an_event_on_an_idle_stream_is_reached_at_once(timeline):
    timeline.host_work(300)
    assert timeline.record_event().ns == 300


def test_waiting_for_one_stream_leaves_the_others(timeline):
    timeline.launch("a", 9000, share=WHOLE // 2)
    timeline.current = timeline.new_stream()
    timeline.launch("b", 100, share=WHOLE // 2)
    timeline.synchronize_stream()
    assert timeline.host_ns == 40 + 100 + 5
    timeline.synchronize_device()
    assert timeline.host_ns == 9020 + 5


# -- records ----------------------------------------------------------------------------------------


def test_records_say_what_ran_where_and_when(timeline):
    timeline.recording = Recording()
    timeline.locate = lambda: "train.py(3): step"
    timeline.begin_op("aten::add")
    timeline.launch("k", 1000)
    timeline.end_op()
    timeline.synchronize_stream()
    found = [(r.category, r.name, r.start_ns, r.dur_ns, r.row) for r in timeline.recording.records]
    assert found == [
        ("cuda_runtime", "cudaLaunchKernel", 100, 20, "host"),
        ("kernel", "k", 120, 1000, 7),
        ("python_function", "train.py(3): step", 0, 120, "host"),
        ("cpu_op", "aten::add", 0, 120, "host"),
        ("python_function", "train.py(3): step", 120, 1005, "host"),
        ("cuda_runtime", "cudaStreamSynchronize", 120, 1005, "host"),
    ]
    assert [(w.name, w.op, w.wait_ns, w.location) for w in timeline.recording.waits] == [
        ("cudaStreamSynchronize", None, 1000, "train.py(3): step")
    ]


def test_a_staged_copy_is_one_call_that_lasts(timeline):
    timeline.recording = Recording()
    timeline.launch("k", 5000)
    timeline.copy("HtoD", BIG, pinned=False, blocking=False)
    call, copy = timeline.recording.records[-2:]
    assert (call.name, call.start_ns, call.dur_ns) == ("cudaMemcpyAsync", 20, 5000 + copy_ns(BIG, 0.5) + 5)
    assert (copy.name, copy.start_ns, copy.dur_ns) == ("Memcpy HtoD (Pageable -> Device)", 5020, copy_ns(BIG, 0.5))
    assert call.args["correlation"] == copy.args["correlation"]
    assert timeline.recording.waits[-1].wait_ns == 5020 + copy_ns(BIG, 0.5) - 40


def test_hooks_hear_of_waits_without_a_recording(timeline):
    found = []
    timeline.wait_hooks.append(found.append)
    timeline.launch("k", 1000)
    timeline.synchronize_device()
    assert [w.wait_ns for w in found] == [1000]


# -- starting again ---------------------------------------------------------------------------------


def program(timeline):
    stream = timeline.new_stream()
    for size in (10, 5000, 300):
        timeline.begin_op("op")
        timeline.launch("k", size)
        timeline.end_op()
        timeline.stream_wait_event(timeline.record_event(), stream)
        timeline.copy("DtoH", size, pinned=size > 100, blocking=size > 1000)
    timeline.synchronize_device()
    return timeline.host_ns, timeline.device_ready_ns, timeline.kernel_count, stream.number


def test_after_a_reset_the_same_program_takes_the_same_time(timeline):
    gc.disable()
    try:
        first = program(timeline)
        timeline.reset()
        assert (timeline.host_ns, timeline.device_ready_ns, timeline.kernel_count) == (0, 0, 0)
        assert program(timeline) == first
        assert program(Timeline(CARDS["a100"], HOST)) == first
    finally:
        gc.enable()


def test_a_stream_somebody_holds_survives_a_reset_empty(timeline):
    stream = timeline.new_stream()
    timeline.current = stream
    timeline.launch("k", 10**9)
    timeline.reset()
    assert timeline.current is not stream
    timeline.current = stream
    assert timeline.launch("k", 10) == 30
    assert timeline.device_ready_ns == 30
