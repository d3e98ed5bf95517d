"""The real DataLoader with real worker processes: on the modelled host's clock, in exact times."""

import dataclasses
import gc
import itertools
import os
import random
import signal
import threading
import time
import warnings

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

import gapless
from gapless import vgpu
from gapless.vgpu.hardware.clock import workers
from gapless.vgpu.hardware.clock.workers import Cost
from gapless.vgpu.host import data_loader
from gapless.vgpu.host.host_clock import counting, measured

MS = 1_000_000
BLOCK = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


class Numbers(Dataset):
    """``count`` numbers, each of which the host works on for ``ms``; ``then(number)`` is called first."""

    def __init__(self, count=16, ms=10.0, then=None):
        self.count, self.ms, self.then = count, ms, then

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        if self.then is not None:
            self.then(number)
        gapless.host_work(self.ms)
        return torch.tensor([number])


class Shards(IterableDataset):
    """Two batches of one worker, five of the other."""

    def __iter__(self):
        worker = get_worker_info().id
        for number in range(2 + 3 * worker):
            gapless.host_work(1)
            yield 10 * worker + number


@pytest.fixture
def free():
    """A card whose host has sixteen cores, and takes no time for Python and operators: what is left is hand-calculated."""
    card = vgpu.find_card("a10g")
    host = dataclasses.replace(card.host, python_call_ns=0, op_ns=0, view_ns=0, core_bytes_per_s=1e18,
                               memory_bytes_per_s=1e18, cores=16)
    vgpu.enable(dataclasses.replace(card, host=host))
    yield
    vgpu.enable("a10g")


@pytest.fixture(autouse=True)
def no_child_stays():
    vgpu.enable()
    vgpu.timeline().reset()
    yield
    gc.collect()
    assert torch.multiprocessing.active_children() == []


def load(dataset=None, *, batch_size=None, **options) -> DataLoader:
    return DataLoader(Numbers() if dataset is None else dataset, batch_size=batch_size, **{"num_workers": 2, **options})


def values(loader) -> list:
    return [batch.tolist() if isinstance(batch, torch.Tensor) else batch for batch in loader]


def elapsed(work) -> int:
    """ns on the host's clock while something is measured."""
    with counting():
        vgpu.timeline().catch_up()
        start = vgpu.timeline().host_ns
        work()
        vgpu.timeline().catch_up()
        return vgpu.timeline().host_ns - start


def test_values_and_order_are_pytorchs():
    assert values(load(batch_size=3, num_workers=3)) == [[[3 * i + j] for j in range(3) if 3 * i + j < 16] for i in range(6)]


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_an_epoch_takes_what_arithmetic_says(free, count):
    """The last worker's process is made last; from its start on it is never without work, and hands over the last batch."""
    cost = Cost(10 * MS, nbytes=8, tensors=1)
    wanted_ns = (count * workers.CREATE_NS["fork"] + workers.START_NS["fork"]
                 + 16 // count * (cost.work_ns + cost.hand_over_ns) + cost.receive_ns
                 + workers.END_NS["fork"] + count * workers.JOIN_NS)
    assert elapsed(lambda: values(load(num_workers=count))) == wanted_ns


def test_without_workers_the_main_process_does_it_all(free):
    assert elapsed(lambda: values(load(num_workers=0))) == 16 * 10 * MS


def test_what_workers_do_is_recorded_on_request_and_only_inside(free):
    with data_loader.recording() as tasks:
        took_ns = elapsed(lambda: values(load(num_workers=2)))
    count = len(tasks)
    values(load(num_workers=2))
    assert len(tasks) == count and sum(not task.is_start for task in tasks) == 16
    assert max(task.ended_ns for task in tasks) - min(task.begun_ns for task in tasks) <= took_ns
    assert elapsed(lambda: values(load(num_workers=2))) == took_ns


def test_the_same_program_takes_the_same_time_whatever_the_machine_does():
    def slowly(number):
        time.sleep(random.random() / 50)

    quiet = {elapsed(lambda: values(load(Numbers(ms=1), batch_size=2, shuffle=False))) for _ in range(3)}
    loaded = {elapsed(lambda: values(load(Numbers(ms=1, then=slowly), batch_size=2))) for _ in range(3)}
    assert len(quiet) == len(loaded) == 1


def test_pythons_and_the_operators_work_in_a_worker_is_counted_on_one_core():
    def epoch(then):
        return elapsed(lambda: values(load(Numbers(4, 10, then), num_workers=1)))

    def calls(number):
        for _ in range(1000):
            str_of(number)

    def operators(number):
        torch.ones(4_000_000).add_(1)

    host, nothing = vgpu.card().host, epoch(str_of)
    assert epoch(calls) - nothing == 4 * 1000 * host.python_call_ns
    wanted_ns = 4 * (4_000_000 * 4 + 4_000_000 * 8) / host.core_bytes_per_s * 1e9
    assert epoch(operators) - nothing == pytest.approx(wanted_ns, rel=0.01)


def str_of(number):
    return number


def test_a_batch_that_is_ready_costs_only_its_receipt(free):
    iterator = iter(load())
    vgpu.timeline().host_work(1000 * MS)
    before_ns = vgpu.timeline().host_ns
    next(iterator)
    assert vgpu.timeline().host_ns - before_ns == Cost(0, tensors=1).receive_ns + workers.ASK_NS


def test_the_window_of_prefetched_batches_is_all_that_is_ready(free):
    """Two workers with three each: then the main process waits for each further one."""
    iterator = iter(load(Numbers(20), prefetch_factor=3))
    vgpu.timeline().host_work(10_000 * MS)
    before_ns = vgpu.timeline().host_ns
    for _ in range(6):
        next(iterator)
    assert vgpu.timeline().host_ns - before_ns < 10 * MS
    next(iterator)
    assert vgpu.timeline().host_ns - before_ns > 10 * MS


def test_the_wait_is_a_block_of_the_trace(free):
    iterator = iter(load(Numbers(16)))
    trace = gapless.profile(lambda: next(iterator), steps=3, warmup=2, device=torch.device("vgpu:0"))
    blocks = [event for event in trace.events if event.get("name") == BLOCK]
    assert [block["cat"] for block in blocks] == ["user_annotation"] * 3
    cost = Cost(10 * MS, nbytes=8, tensors=1)
    between = [later["ts"] + later["dur"] - block["ts"] - block["dur"] for block, later in itertools.pairwise(blocks)]
    assert sum(between) * 1e3 == pytest.approx(cost.work_ns + cost.hand_over_ns)  # two workers: two batches in that time
    iterator = iter(load(num_workers=0))
    names = [event["name"] for event in gapless.profile(lambda: next(iterator), device=torch.device("vgpu:0")).events]
    assert names.count("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__") == 3


def test_persistent_workers_start_once(free):
    loader = load(persistent_workers=True)
    first, second = (elapsed(lambda: values(loader)) for _ in range(2))
    cost = Cost(10 * MS, nbytes=8, tensors=1)
    assert second < 8 * (cost.work_ns + cost.hand_over_ns) + 6 * MS < first - workers.START_NS["fork"]
    next(iter(loader))
    assert values(loader) == [[number] for number in range(16)]  # after one that was left half way


def test_pinned_batches_come_through_the_thread_that_pins(free):
    loader = load(pin_memory=True)
    assert all(batch.is_pinned() for batch in loader)
    iterator = iter(loader)
    vgpu.timeline().host_work(1000 * MS)
    before_ns = vgpu.timeline().host_ns
    batch = next(iterator)
    assert vgpu.timeline().host_ns - before_ns == workers.ASK_NS
    assert batch.to("vgpu:0", non_blocking=True).tolist() == [0]


def test_out_of_order_means_in_the_order_of_the_modelled_host(free):
    def first_is_slow(number):
        time.sleep(random.random() / 50)
        gapless.host_work(200 * (number == 0))

    orders = {tuple(batch.item() for batch in load(Numbers(8, 10, first_is_slow), in_order=False)) for _ in range(3)}
    (order,) = orders
    assert order[0] == 1 and sorted(order) == list(range(8))


def test_iterable_datasets_of_unequal_length():
    wanted = [0, 10, 1, 11, 12, 13, 14]
    loader = load(Shards(), persistent_workers=True)

    def epoch():
        assert values(loader) == wanted

    times = [elapsed(epoch) for _ in range(3)]
    assert times[0] > times[1] == times[2]


def test_samplers_are_counted_and_functions_of_the_program_are_called():
    class Sampler(torch.utils.data.Sampler):
        def __iter__(self):
            for number in (3, 1, 2):
                gapless.host_work(1000)
                yield number

    def init(worker):
        gapless.host_work(5000)
        np.random.seed(worker)

    plain = elapsed(lambda: values(load(Numbers(3, 1))))
    assert elapsed(lambda: values(load(Numbers(4, 1), sampler=Sampler()))) - plain > 2900 * MS
    assert values(load(sampler=Sampler(), collate_fn=lambda number: [number.item(), "mine"])) == [[3, "mine"], [1, "mine"],
                                                                                                [2, "mine"]]
    assert elapsed(lambda: values(load(Numbers(3, 1), worker_init_fn=init))) - plain == pytest.approx(5000 * MS, rel=1e-3)


@pytest.mark.slow
def test_two_loaders_and_one_inside_another():
    wanted = [[number] for number in range(4)]
    one, other = load(Numbers(4, 1)), load(Numbers(4, 2))
    assert list(zip(values(one), values(other), strict=True)) == [(each, each) for each in wanted]
    assert [values(other) for _ in load(Numbers(2, 1))] == [wanted, wanted]
    assert len(list(zip(one, other))) == 4


def test_a_clock_that_is_set_to_zero_half_way(free):
    iterator = iter(load())
    next(iterator)
    vgpu.timeline().reset()
    next(iterator)
    next(iterator)
    assert 0 < vgpu.timeline().host_ns < 20 * MS


def sleeps(number):
    time.sleep(0.03)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_where_the_host_is_measured_its_workers_are(free, method):
    def loaded():
        return elapsed(lambda: values(load(Numbers(3, 0, sleeps), num_workers=1, multiprocessing_context=method)))

    counted_ns = loaded()
    with measured():
        assert loaded() >= counted_ns + 3 * 30 * MS


@pytest.mark.slow
def test_spawned_workers_count_too(free):
    one = Numbers(3, 7)
    cost = Cost(7 * MS, nbytes=8, tensors=1)
    assert elapsed(lambda: values(load(one, num_workers=1, multiprocessing_context="spawn"))) == (
        workers.CREATE_NS["spawn"] + workers.START_NS["spawn"] + 3 * (cost.work_ns + cost.hand_over_ns) + cost.receive_ns
        + workers.END_NS["spawn"] + workers.JOIN_NS)


# -- what goes wrong --------------------------------------------------------------------------------


def fails_at_3(number):
    if number == 3:
        raise KeyError("mine")


def test_an_error_in_a_worker_comes_through_and_what_is_left_can_be_had():
    iterator = iter(load(Numbers(6, 1, fails_at_3)))
    assert [next(iterator).item() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="mine(.|\n)*in DataLoader worker process 1|in DataLoader worker process 1(.|\n)*mine"):
        next(iterator)
    assert [batch.item() for batch in iterator] == [4, 5]


def wait_for(file):
    until = time.monotonic() + 20
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.01)


@pytest.mark.slow
def test_an_error_does_not_wait_for_other_workers(tmp_path):
    released = tmp_path / "released"

    def second_hangs(number):
        if number == 0:
            raise KeyError("mine")
        wait_for(released)

    start = time.monotonic()
    iterator = iter(load(Numbers(6, 1, second_hangs)))
    with pytest.raises(KeyError):
        next(iterator)
    released.touch()
    assert time.monotonic() - start < 15


@pytest.mark.parametrize("end, text", [(lambda: os.kill(os.getpid(), signal.SIGKILL), "killed by signal|exited unexpectedly"),
                                           (lambda: os._exit(3), "exited unexpectedly")])
def test_a_worker_that_ends_is_an_error(end, text):
    with pytest.raises(RuntimeError, match=text):
        values(load(Numbers(8, 1, lambda number: end() if number == 3 else None)))


def test_a_timeout_is_of_the_modelled_host(free):
    iterator = iter(load(Numbers(4, 9000), timeout=5))
    with pytest.raises(RuntimeError, match="timed out after 5 seconds"):
        next(iterator)
    assert vgpu.timeline().host_ns >= 5000 * MS
    assert next(iterator).item() == 0


def test_a_timeout_of_the_machine_counts_on_the_modelled_host_too(free, tmp_path, monkeypatch):
    monkeypatch.setattr(data_loader, "BUSY_S", 0)
    released = tmp_path / "released"
    iterator = iter(load(Numbers(4, 1, lambda number: wait_for(released)), timeout=0.2))
    with pytest.raises(RuntimeError, match="timed out after 0.2 seconds"):
        next(iterator)
    assert vgpu.timeline().host_ns >= 200 * MS
    released.touch()


def test_a_machine_that_is_slower_than_the_timeout_changes_nothing():
    assert values(load(Numbers(2, 1, lambda number: time.sleep(0.4)), timeout=0.2)) == [[0], [1]]


def test_tensors_of_the_device_are_refused_in_a_worker():
    with pytest.raises(RuntimeError, match="Cannot re-initialize vgpu in forked subprocess"):
        values(load(Numbers(2, 1, lambda number: torch.ones(1, device="vgpu:0"))))


def test_a_loader_that_is_empty_and_one_that_is_dropped():
    assert values(load(Numbers(0))) == []
    for batch in load(Numbers(100, 1)):
        assert batch.item() == 0
        break


def test_the_thread_that_pins_ends_before_the_workers_whose_batches_it_maps(monkeypatch):
    raised = []
    monkeypatch.setattr(threading, "excepthook", lambda error: raised.append(error.exc_value))
    images = torch.utils.data.TensorDataset(torch.zeros(64, 250_000))
    batches = iter(DataLoader(images, 4, num_workers=2, pin_memory=True, prefetch_factor=4))
    next(batches)
    del batches
    gc.collect()
    assert not raised


def test_an_interrupt_in_the_middle_leaves_a_loader_that_goes_on():
    interrupted = torch.multiprocessing.Event()
    iterator = iter(load(Numbers(4, 1, lambda number: interrupted.wait(60))))
    # To this thread: raised in the timer's own, it would not wake what waits here.
    timer = threading.Timer(0.05, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # some library may have put its own there
    try:
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            next(iterator)
    finally:
        signal.signal(signal.SIGINT, before)
        timer.join()
        interrupted.set()
    assert [batch.item() for batch in iterator] == [0, 1, 2, 3]


def test_more_workers_than_the_modelled_host_has_cores_is_a_warning():
    cores = vgpu.card().host.cores
    with pytest.warns(UserWarning, match=f"{cores + 1} worker processes and the modelled host {cores} cores"):
        load(num_workers=cores + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(num_workers=cores)


def test_another_thread_may_iterate():
    found = []
    with counting():
        thread = threading.Thread(target=lambda: found.extend(values(load(Numbers(4, 1)))))
        thread.start()
        thread.join()
        assert vgpu.state.counting is not None
    assert found == [[0], [1], [2], [3]]


def test_another_pytorchs_loader_is_left_as_it_is_and_that_is_said_once(monkeypatch):
    """An iterator without the methods that are replaced, as a later PyTorch may have it."""

    class Iterator:
        def __init__(self, loader):
            self.loader = loader

    monkeypatch.setattr(data_loader, "_Iterator", Iterator)
    data_loader.install()
    with pytest.warns(data_loader.NotModelledWarning, match="take no time on the modelled host"):
        Iterator(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Iterator(2).loader == 2


def test_what_is_replaced_is_there_in_this_pytorch():
    assert data_loader._difference() is None
