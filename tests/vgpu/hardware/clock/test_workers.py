"""When batches of worker processes are there, by hand calculation. Times in ms, as the model is asked in ns."""

from collections import deque

import pytest

from gapless.vgpu.hardware.clock.workers import (
    HAND_OVER_NS,
    PIN_BYTES_PER_S,
    RECEIVE_NS,
    RECEIVE_TENSOR_NS,
    Cost,
    Task,
    Workers,
)

MS = 1_000_000


def took(ms: float, **more) -> Cost:
    """That keeps a worker busy for ``ms``, with handing over."""
    return Cost(round(ms * MS) - HAND_OVER_NS, **more)


def workers(costs: list[list], *, started=None, start=0, cores=100, pins=False) -> Workers:
    """Of each worker, what its messages take (ms, or a Cost); a task is put for each at 0, turn by turn."""
    left = [deque(each) for each in costs]

    def cost_of(worker):
        cost = left[worker].popleft()
        return cost if isinstance(cost, Cost) else took(cost)

    found = Workers([ms * MS for ms in started or [0] * len(costs)], start * MS, cores, cost_of, pins=pins)
    for turn in range(max(map(len, costs))):
        for worker, each in enumerate(costs):
            if turn < len(each):
                found.put(worker, 0)
    return found


def taken(model: Workers, *now_ms: float) -> list[tuple[float, int]]:
    """(when it is there in ms, worker) of the message that is asked for at each of these times."""
    found = [model.take(round(now * MS)) for now in now_ms]
    return [(ready_ns / MS, worker) for ready_ns, worker in found]


def test_a_worker_does_one_after_the_other():
    assert taken(workers([[10, 20, 5]]), 0, 10, 30) == [(10, 0), (30, 0), (35, 0)]


def test_what_was_made_while_the_main_process_was_busy_is_there():
    assert taken(workers([[10, 20, 5]]), 0, 100, 100) == [(10, 0), (30, 0), (35, 0)]


def test_workers_work_side_by_side_and_messages_come_as_they_are_there():
    assert taken(workers([[10, 10], [4, 9]]), 0, 4, 10, 13) == [(4, 1), (10, 0), (13, 1), (20, 0)]


def test_of_two_at_the_same_time_the_first_worker_comes_first():
    assert taken(workers([[10], [10]]), 0, 10) == [(10, 0), (10, 1)]


def test_a_worker_begins_when_its_process_is_there_and_has_started():
    assert taken(workers([[10], [10]], started=[9, 18], start=20), 18, 39) == [(39, 0), (48, 1)]


def test_a_task_is_begun_when_it_is_put():
    model = workers([[10, 10]])
    assert taken(model, 0, 10) == [(10, 0), (20, 0)]
    model = Workers([0], 0, 100, lambda worker: took(10))
    model.put(0, 50 * MS)
    assert taken(model, 50) == [(60, 0)]


def test_busy_workers_share_the_cores():
    """Two cores for three workers: each gets two thirds of one, until one has done its 10: (10 × 3/2) = 15; then a core each."""
    assert taken(workers([[10], [20], [30]], cores=2), 0, 15, 25) == [(15, 0), (25, 1), (35, 2)]


def test_waiting_for_a_disk_takes_no_core():
    slow = [took(10, wait_ns=30 * MS), took(10, wait_ns=30 * MS)]
    assert taken(workers([slow[:1], slow[1:]], cores=1), 0, 0) == [(50, 0), (50, 1)]  # both wait at once, then share a core
    assert taken(workers([slow], cores=1), 0, 0) == [(40, 0), (80, 0)]


def test_the_main_process_holds_a_core_while_it_is_busy():
    """Three cores for three workers, of which the main process has one until 9: by then each has done 6 of its 10."""
    model = workers([[10], [10], [10]], cores=3)
    assert taken(model, 9) == [(13, 0)]


def test_the_main_process_holds_none_while_it_waits():
    """It waits until 10 and is busy until 16: 6 × 2/3 = 4 of the second 10 are done by then."""
    model = workers([[10, 10], [10, 10], [10, 10]], cores=3)
    assert taken(model, 0, 10, 10, 16) == [(10, 0), (10, 1), (10, 2), (22, 0)]


def test_one_core_is_left_for_workers_always():
    assert taken(workers([[10], [10]], cores=1), 100) == [(20, 0)]


def test_times_are_whole_and_no_work_is_lost():
    """Seven workers on three cores: whatever is rounded, none is done before its share of the cores allows it."""
    model = workers([[11 + each] for each in range(7)], cores=3)
    last, now = 0, 0
    for _ in range(7):
        now, _ = model.take(now)
        assert isinstance(now, int) and now >= last
        last = now
    whole = sum(11 + each for each in range(7)) * MS
    assert whole // 3 <= last <= whole // 3 + 6 * MS


def test_the_thread_that_pins_takes_one_after_the_other():
    cost = took(10, nbytes=37 * 2**20, tensors=2)
    pin_ns = RECEIVE_NS + 2 * RECEIVE_TENSOR_NS + round(37 * 2**20 / PIN_BYTES_PER_S * 1e9)
    there_ns = 10 * MS + cost.hand_over_ns - HAND_OVER_NS
    model = workers([[cost], [cost]], pins=True)
    assert model.take(0) == (there_ns + pin_ns, 0)
    assert model.take(0) == (there_ns + 2 * pin_ns, 1)


def test_a_worker_that_has_no_more_answers_nothing_until_it_is_told_to_resume():
    model = workers([[10, took(1, ends=True), 10, 10], [30, 30]])
    model.put(0, 0, resumes=True)
    model.put(0, 0)
    # 10, then the end at 11; two tasks are passed over; then the answer to the resumption
    assert taken(model, 0, 10, 11, 21) == [(10, 0), (11, 0), (21, 0), (30, 1)]


def test_patience_ends_and_the_message_stays():
    model = workers([[10]])
    assert model.take(0, 4 * MS) == (4 * MS, None)
    assert model.take(4 * MS, 6 * MS) == (10 * MS, 0)


def test_nobody_waits_for_what_will_not_come():
    model = workers([[10]])
    assert taken(model, 0) == [(10, 0)]
    with pytest.raises(LookupError, match="nothing to do|anything to do"):
        model.take(10 * MS)


def test_costs_are_asked_for_as_late_as_can_be():
    """While the first is on its way nobody needs to know what its worker does next."""
    asked = []

    def cost_of(worker):
        asked.append(worker)
        return took(10)

    model = Workers([0, 0], 0, 8, cost_of)
    for worker in (0, 1, 0, 1):
        model.put(worker, 0)
    model.take(0)
    assert sorted(asked) == [0, 1]


@pytest.mark.parametrize("count, epoch_ms", [(1, 20 + 64), (2, 20 + 32), (4, 20 + 16), (8, 20 + 16)])
def test_more_workers_than_cores_are_no_faster(count, epoch_ms):
    """64 batches of 1 ms on four cores, the main process always waiting: a quarter of 64 ms at best."""
    per_worker = 64 // count
    model = workers([[1] * per_worker] * count, start=20, cores=4)
    now = 0
    for _ in range(64):
        now = max(now, model.take(now)[0])
    # with eight, two share a core in their start too
    assert now == (epoch_ms + (20 if count == 8 else 0)) * MS


@pytest.mark.parametrize("count", [1, 3, 4, 16])
def test_nothing_is_faster_than_the_least(count):
    costs = [[took(1 + each % 3) for each in range(12)] for _ in range(count)]
    model, now = workers(costs, cores=4), 0
    for _ in range(12 * count):
        now = max(now, model.take(now)[0])
    least = sum(cost.work_ns + cost.hand_over_ns for each in costs for cost in each) / 4  # all the work on all the cores
    assert now >= least and (count < 4 or now < 1.2 * least)


def test_tasks_are_recorded_where_somebody_wants_them():
    costs, record = [deque([took(10), took(4)]), deque([took(6)])], []
    model = Workers([3 * MS, 9 * MS], 5 * MS, 100, lambda worker: costs[worker].popleft(), record=record)
    model.put(0, 9 * MS)
    model.put(1, 9 * MS)
    model.put(0, 9 * MS)
    assert [model.take(0)[1] for _ in range(3)] == [0, 1, 0]
    assert record == [Task(0, 3 * MS, 8 * MS, True), Task(1, 9 * MS, 14 * MS, True), Task(0, 9 * MS, 19 * MS, False),
                      Task(1, 14 * MS, 20 * MS, False), Task(0, 19 * MS, 23 * MS, False)]
