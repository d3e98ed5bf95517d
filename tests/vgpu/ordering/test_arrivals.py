"""Bytes on their way: when a copy that does not block is seen, and who touches its memory too early."""

import os

import pytest
import torch

from gapless import vgpu

SIZE = 100_000


def busy(device):
    """Queue a millisecond."""
    vgpu.timeline().launch("spin_kernel", 10**6)


def pinned(value=0.0, size=SIZE):
    return torch.full((size,), value).pin_memory()


@pytest.fixture
def found():
    """The races of the test."""
    with vgpu.races([]) as collected:
        yield collected


# -- to the host ------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", [
    lambda: torch.vgpu.synchronize(),
    lambda: torch.vgpu.current_stream().synchronize(),
    lambda: torch.vgpu.current_stream().record_event().synchronize(),
    lambda: torch.ones(1, device="vgpu").item(),
    lambda: torch.ones(1, device="vgpu").cpu(),
    lambda: vgpu.timeline().host_work(10**7),
], ids=["device", "stream", "event", "item", "cpu", "time"])
def test_the_value_is_there_when_the_copy_is_over(wait, device, found):
    host, x = pinned(-1.0), torch.ones(SIZE, device=device)
    busy(device)
    host.copy_(x, non_blocking=True)
    fresh = x.to("cpu", non_blocking=True)
    assert host.isnan().all() and fresh.isnan().all()  # what it held is no more to be relied on
    wait()
    assert (host == 1).all() and (fresh == 1).all()
    assert not found


def test_a_loop_that_asks_sees_it_arrive(device):
    host = pinned()
    host.copy_(torch.ones(SIZE, device=device), non_blocking=True)
    event = torch.vgpu.current_stream().record_event()
    while not event.query():
        assert host.isnan().all()
    assert (host == 1).all()


def test_it_arrives_at_its_end_and_not_a_nanosecond_before(device):
    timeline, host = vgpu.timeline(), pinned()
    host.copy_(torch.ones(SIZE, device=device), non_blocking=True)
    timeline.host_work(timeline.current.ready_ns - timeline.host_ns - 1)
    assert host.isnan().all()
    timeline.host_work(1)
    assert (host == 1).all()


@pytest.mark.parametrize("dtype, stands_for_nothing", [
    (torch.float32, float("nan")), (torch.bfloat16, float("nan")), (torch.complex64, complex("nan+0j")),
    (torch.int64, 2**63 - 1), (torch.uint8, 255), (torch.bool, True)])
def test_a_new_tensor_holds_what_nobody_takes_for_the_value(dtype, stands_for_nothing, device):
    host = torch.zeros(3, dtype=dtype, device=device).to("cpu", non_blocking=True)
    assert torch.equal(host.isnan(), torch.full((3,), stands_for_nothing, dtype=dtype).isnan())
    assert host[0].isnan() or host[0].item() == stands_for_nothing
    torch.vgpu.synchronize()
    assert torch.equal(host, torch.zeros(3, dtype=dtype))


def test_memory_that_the_next_copy_will_write_is_not_read_in_time(device):
    host, x = pinned(), torch.ones(SIZE, device=device)
    host.copy_(x, non_blocking=True)
    first = torch.vgpu.current_stream().record_event()
    busy(device)
    host.copy_(x, non_blocking=True)
    first.synchronize()
    assert host.isnan().all()  # it may be the second copy's by now
    torch.vgpu.synchronize()
    assert (host == 1).all()


def test_the_value_is_the_one_at_the_copys_turn(device):
    x, host = torch.ones(SIZE, device=device), pinned()
    x.add_(1)
    host.copy_(x, non_blocking=True)
    x.add_(1)
    torch.vgpu.synchronize()
    assert (host == 2).all()


def test_copies_into_the_same_memory_come_in_the_order_of_their_stream(device, found):
    host, x = pinned(), torch.ones(SIZE, device=device)
    for _ in range(3):
        x.mul_(2)
        host.copy_(x, non_blocking=True)
    torch.vgpu.synchronize()
    assert (host == 8).all()
    assert not found


@pytest.mark.parametrize("view", [lambda t: t[10:20], lambda t: t.view(100, -1)[:, :100].t(), lambda t: t.view(10, -1).t()])
def test_parts_and_layouts(view, device):
    host, x = pinned(), torch.arange(float(SIZE), device=device)
    part = view(host)
    part.copy_(view(x), non_blocking=True)
    torch.vgpu.synchronize()
    expected = torch.zeros(SIZE)
    view(expected).copy_(view(torch.arange(float(SIZE))))
    assert torch.equal(host, expected)


@pytest.mark.parametrize("copy", [
    lambda x: pinned().copy_(x),
    lambda x: x.cpu(),
    lambda x: torch.zeros(SIZE).copy_(x, non_blocking=True),  # pageable: it blocks all the same
    lambda x: pinned().double().pin_memory().copy_(x),
    lambda x: x.to("cpu", torch.float64),
    lambda x: x.view(10, -1).t().to("cpu", torch.float64, non_blocking=True),
], ids=["blocking", "cpu", "pageable", "copy_ to another dtype", "to another dtype", "in another order"])
def test_a_copy_that_waits_is_there_at_once(copy, device):
    busy(device)
    assert (copy(torch.ones(SIZE, device=device)) == 1).all()


@pytest.mark.parametrize("copy", [
    lambda x: pinned().double().pin_memory().copy_(x, non_blocking=True),
    lambda x: x.to("cpu", torch.float64, non_blocking=True),
], ids=["copy_", "to"])
def test_the_device_converts_a_copy_that_is_not_waited_for(copy, device, waits):
    busy(device)
    with waits() as waited:
        host = copy(torch.ones(SIZE, device=device))
    assert not waited and host.is_pinned() and host.isnan().all()
    torch.vgpu.synchronize()
    assert (host == 1).all()


def test_the_device_converts_what_comes_from_pinned_memory(device, waits):
    target = torch.zeros(SIZE, dtype=torch.float64, device=device)
    with waits() as waited:
        found = pinned().fill_(2).to(device, torch.float64, non_blocking=True)
        target.copy_(pinned().fill_(3), non_blocking=True)
    assert not waited
    assert (found.dtype, found[0].item(), target[0].item()) == (torch.float64, 2, 3)


def test_with_autograd_and_in_inference_mode(device):
    x = torch.ones(SIZE, device=device, requires_grad=True)
    host = (x * 2).to("cpu", non_blocking=True)
    torch.vgpu.synchronize()
    host.sum().backward()  # the bytes came without autograd's notice
    assert (x.grad == 2).all()
    with torch.inference_mode():
        host = x.to("cpu", non_blocking=True)
        into = pinned().copy_(x, non_blocking=True)
    torch.vgpu.synchronize()
    assert (host == 1).all() and (into == 1).all()


def test_a_tensor_that_is_gone_before_its_bytes_come(device):
    for _ in range(3):
        x = torch.ones(SIZE, device=device)
        x.to("cpu", non_blocking=True)
        pinned().copy_(x, non_blocking=True)
        row = pinned()[10:20]
        row.copy_(x[:10], non_blocking=True)
    torch.vgpu.synchronize()
    assert (row == 1).all()
    assert not vgpu.timeline().due


@pytest.mark.parametrize("end", [lambda: vgpu.timeline().reset(), lambda: vgpu.enable("t4")], ids=["reset", "another card"])
def test_when_the_clocks_start_anew_all_copies_are_over(end, device):
    host = torch.ones(SIZE, device=device).to("cpu", non_blocking=True)
    end()
    assert (host == 1).all()
    assert vgpu.timeline().host_ns == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_in_a_forked_process_nothing_arrives(device):
    host = torch.ones(3, device=device).to("cpu", non_blocking=True)
    child = os.fork()
    if child == 0:
        vgpu.timeline().host_work(10**9)
        os._exit(0 if host.isnan().all() else 1)
    assert os.waitpid(child, 0)[1] == 0
    torch.vgpu.synchronize()
    assert (host == 1).all()


def test_without_values_there_is_nothing_to_wait_for(device):
    with vgpu.shape_only():
        x, host = torch.ones(SIZE, device=device), pinned(3.0)
        assert (x.to("cpu", non_blocking=True) == 0).all()
        host.copy_(x, non_blocking=True)
        torch.ones(SIZE).pin_memory().to(device, non_blocking=True)
        assert (host == 0).all() and not vgpu.timeline().due


# -- to the device ----------------------------------------------------------------------------------


@pytest.mark.parametrize("blocking", [True, False])
def test_the_device_reads_what_has_arrived_by_its_turn(blocking, device, found):
    host, x = pinned(), torch.ones(SIZE, device=device)
    busy(device)
    host.copy_(x, non_blocking=True)
    back, into = host.to(device, non_blocking=not blocking), torch.empty(SIZE, device=device)
    into.copy_(host, non_blocking=not blocking)
    part = host[10:20].to(device, non_blocking=not blocking)
    assert all((t == 1).all() for t in (back, into, part))
    torch.vgpu.synchronize()
    assert not found


@pytest.mark.parametrize("write", [lambda host: host.fill_(5), lambda host: host.numpy().fill(5), lambda host: host[3:4].add_(1),
                                   lambda host: host.data.zero_().add_(7)])
@pytest.mark.parametrize("look", [lambda host: torch.vgpu.synchronize(), lambda host: host.to("vgpu", non_blocking=True)],
                         ids=["the end", "the next copy"])
def test_memory_that_the_host_writes_while_the_device_reads_it(look, write, device, found):
    host = pinned()
    busy(device)
    host.to(device, non_blocking=True)
    write(host)
    look(host)
    torch.vgpu.synchronize()
    error, = found
    assert isinstance(error, vgpu.RaceError)
    assert error.first.op == "aten::_to_copy" and error.first.line.endswith("test_memory_that_the_host_writes_while_the_device_reads_it")
    assert "overwritten" in str(error) and "test_arrivals.py, line" in str(error) and "event.synchronize()" in str(error)


def test_a_buffer_filled_again_before_anybody_waited(device, found):
    """The copy is over by the clock: on another day it is not."""
    buffer = pinned()
    for i in range(4):
        buffer.fill_(i)
        buffer.to(device, non_blocking=True)
        vgpu.timeline().host_work(10**7)
    error, = found  # of one line, told once
    assert "the host has overwritten pinned memory that" in str(error)


@pytest.mark.parametrize("wait", [
    lambda event: event.synchronize(),
    lambda event: torch.vgpu.synchronize(),
    lambda event: [None for _ in iter(event.query, True)],
    lambda event: torch.ones(1, device="vgpu").item(),
], ids=["event", "device", "query", "item"])
def test_a_buffer_filled_again_after_a_wait(wait, device, found):
    buffer, event = pinned(), torch.vgpu.Event()
    for i in range(4):
        buffer.fill_(i)
        buffer.to(device, non_blocking=True)
        event.record()
        wait(event)
    torch.vgpu.synchronize()
    assert not found


def test_memory_that_the_host_writes_before_the_copy_to_it_is_done(device, found):
    host = torch.ones(SIZE, device=device).to("cpu", non_blocking=True)
    host.zero_()
    torch.vgpu.synchronize()
    assert (host == 1).all()  # the copy comes last
    assert "was to write" in str(found[0])


def test_a_number_that_an_operator_takes_before_it_is_there(device, found):
    x = torch.ones(3, device=device)
    busy(device)
    number = x.sum().to("cpu", non_blocking=True)
    y = x * number
    assert y.isnan().all()
    error, = found
    assert (error.first.op, error.second.op) == ("aten::_to_copy", "aten::mul")
    torch.vgpu.synchronize()
    assert (x * number == 3).all() and len(found) == 1


def test_a_dtype_is_converted_on_the_host_which_reads_too_early(device, found):
    busy(device)
    host = torch.ones(SIZE, device=device).to("cpu", non_blocking=True)
    host.to(device, torch.float64, non_blocking=True)
    assert not found  # that is the device's
    host.to(device, torch.float64)
    assert "reads pinned memory on the host before" in str(found[0])


@pytest.mark.parametrize("first, second, races", [
    (lambda h, x: h.copy_(x, non_blocking=True), lambda h, x: h.to("vgpu", non_blocking=True), True),
    (lambda h, x: h.to("vgpu", non_blocking=True), lambda h, x: h.copy_(x, non_blocking=True), True),
    (lambda h, x: h.copy_(x, non_blocking=True), lambda h, x: h.copy_(x, non_blocking=True), True),
    (lambda h, x: h.to("vgpu", non_blocking=True), lambda h, x: h.to("vgpu", non_blocking=True), False),
    (lambda h, x: h[:9].copy_(x[:9], non_blocking=True), lambda h, x: h[9:].to("vgpu", non_blocking=True), False),
], ids=["read after write", "write after read", "two writes", "two reads", "two halves"])
@pytest.mark.parametrize("waits", [False, True])
def test_two_streams_and_one_piece_of_pinned_memory(waits, first, second, races, device, found):
    host, x, side = pinned(), torch.ones(SIZE, device=device), torch.vgpu.Stream()
    side.wait_stream(torch.vgpu.current_stream())
    busy(device)
    first(host, x)
    if waits:
        side.wait_stream(torch.vgpu.current_stream())
    with side:
        second(host, x)
    torch.vgpu.synchronize()
    assert len(found) == (races and not waits)
    assert not found or "the same pinned memory" in str(found[0])


def test_what_lies_beside_bytes_on_their_way_may_be_used(device, found):
    host, x = torch.zeros(4, 100).pin_memory(), torch.ones(100, device=device)
    busy(device)
    host[1].copy_(x, non_blocking=True)
    assert host[::2].to(device).sum().item() == 0
    assert host[0].to(device, torch.float64, non_blocking=True).sum().item() == 0
    busy(device)
    host[1].copy_(x, non_blocking=True)
    host[:, ::50].to(device)  # a temporary tensor on the host, with a byte of them
    error, = found
    assert "reads pinned memory on the host before" in str(error)
