"""torch.accelerator, torch.Stream and torch.Event on the virtual clocks and the modelled memory."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from gapless import vgpu


def busy(device, kernels=1):
    """Queue some milliseconds of work."""
    with vgpu.shape_only():
        x = torch.empty(10_000, 10_000, device=device)
        for _ in range(kernels):
            x.mul_(2)


def test_the_one_device(device):
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == 1
    assert torch.accelerator.current_device_index() == 0
    assert torch.accelerator.current_accelerator(check_available=True) == torch.device("vgpu")
    torch.accelerator.set_device_index(0)
    with torch.accelerator.device_index(0):
        assert torch.accelerator.current_device_index() == 0
    assert torch.float16 in torch.accelerator.get_device_capability()["supported_dtypes"]


@pytest.mark.parametrize("use", [
    lambda: torch.accelerator.set_device_index(1),
    lambda: torch.accelerator.synchronize(1),
    lambda: torch.accelerator.memory_allocated(1),
    lambda: torch.accelerator.current_stream(1),
    lambda: torch.accelerator.device_index(1).__enter__(),
], ids=["set", "synchronize", "memory", "stream", "context"])
def test_there_is_no_other(use, device):
    with pytest.raises(RuntimeError, match="there is one virtual GPU"):
        use()


def test_synchronize_takes_a_device(device, waits):
    for which in ((), (0,), (device,), ("vgpu:0",)):
        busy(device)
        with waits() as found:
            torch.accelerator.synchronize(*which)
        assert [wait.name for wait in found] == ["cudaDeviceSynchronize"]
        assert vgpu.timeline().host_ns >= vgpu.timeline().device_ready_ns
    with pytest.raises((RuntimeError, ValueError)):
        torch.accelerator.synchronize("cuda")


def test_memory(device):
    accelerator = torch.accelerator
    accelerator.reset_peak_memory_stats()
    before = accelerator.memory_allocated()
    x = torch.empty(1024, device=device)
    assert accelerator.memory_allocated() == before + 4096
    assert accelerator.memory_reserved() == torch.vgpu.memory_reserved() >= before + 4096
    del x
    assert accelerator.memory_allocated() == before
    assert accelerator.max_memory_allocated() == before + 4096
    assert accelerator.max_memory_reserved() == torch.vgpu.max_memory_reserved() >= before + 4096
    assert accelerator.memory_stats()["allocated_bytes.all.peak"] == torch.vgpu.max_memory_allocated()
    assert torch.vgpu.memory_stats() == accelerator.memory_stats()
    accelerator.reset_peak_memory_stats()
    assert accelerator.max_memory_allocated() == before
    accelerator.reset_accumulated_memory_stats()
    assert accelerator.memory_stats()["allocation.all.allocated"] == 0
    accelerator.empty_cache()
    if hasattr(accelerator, "get_memory_info"):
        assert accelerator.get_memory_info() == torch.vgpu.mem_get_info() == (24 * 2**30 - torch.vgpu.memory_reserved(), 24 * 2**30)


# -- torch.Stream and torch.Event ---------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: torch.Stream(device="vgpu"), lambda: torch.Stream(), lambda: torch.Stream("vgpu:0")])
def test_streams_run_side_by_side(make, device):
    busy(device)
    alone = vgpu.timeline().device_ready_ns
    stream = make()
    with stream as entered:
        assert entered is stream
        assert torch.accelerator.current_stream() == stream
        busy(device)
    assert torch.accelerator.current_stream() == torch.vgpu.default_stream()
    assert alone <= vgpu.timeline().device_ready_ns < 2 * alone
    assert not stream.query()
    stream.synchronize()
    assert stream.query()


def test_a_stream_entered_twice_leaves_as_it_came(device):
    first, second = torch.Stream(), torch.Stream()
    with first, second, first:
        assert torch.accelerator.current_stream() == first
    assert torch.accelerator.current_stream() == torch.vgpu.default_stream()


def test_each_thread_has_its_own_current_stream(device):
    stream, there = torch.Stream(), []
    with stream, ThreadPoolExecutor(1) as pool:
        there.append(pool.submit(torch.accelerator.current_stream).result())
        pool.submit(torch.Stream().__enter__).result()
        there.append(torch.accelerator.current_stream())
    assert there == [torch.vgpu.default_stream(), stream]


def test_the_stream_may_be_set(device):
    stream = torch.Stream()
    try:
        torch.accelerator.set_stream(stream)
        assert torch.vgpu.current_stream() == stream
    finally:
        torch.vgpu.set_stream(torch.vgpu.default_stream())
    with pytest.raises(TypeError, match="torch.vgpu.Stream"):
        torch.accelerator.set_stream("first")


def test_events_measure_virtual_time(device):
    start, end = torch.Event(enable_timing=True), torch.Event("vgpu", enable_timing=True)
    start.record()
    busy(device, 3)
    end.record()
    assert not end.query()
    torch.accelerator.synchronize()
    assert start.elapsed_time(end) == pytest.approx(3 * 2 * 4e8 / (600e9 * 0.85) * 1e3, rel=0.2)


def test_an_event_holds_another_stream(device):
    side, event = torch.Stream(), torch.Event()
    busy(device)
    event.record()
    ready = vgpu.timeline().device_ready_ns
    event.wait(side)
    with side:
        torch.ones(2, device=device)
    assert vgpu.timeline().device_ready_ns > ready
    assert isinstance(side.record_event(), torch.Event)


def test_what_they_say_of_themselves(device):
    stream, event = torch.Stream(), torch.Event()
    assert isinstance(stream, torch.Stream) and isinstance(event, torch.Event)
    assert isinstance(torch.vgpu.Stream(), torch.Stream)
    assert not isinstance(event, torch.Stream)
    assert stream.device == event.device == device
    assert stream.device_index == 0
    assert stream.stream_id != torch.vgpu.default_stream().stream_id
    assert issubclass(torch.cuda.Stream, torch.Stream)


def test_they_have_all_that_pytorchs_have(device):
    stream, event = torch._C.Stream, torch._C.Event
    for theirs, ours in ((stream, torch.vgpu.Stream), (event, torch.vgpu.Event)):
        assert {name for name in dir(theirs) if not name.startswith("_")} <= set(dir(ours))
    assert not torch.Stream().is_capturing()


def test_streams_of_other_devices_are_pytorchs(device):
    with pytest.raises(RuntimeError) as error:
        torch.Stream(device="cuda")
    assert "vgpu" not in str(error.value)
