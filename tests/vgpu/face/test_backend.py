import copy
import io
import pickle
import subprocess
import sys

import pytest
import torch
from torch import nn

from gapless import vgpu
from gapless.vgpu.hardware.kernels import costs


def busy(device, kernels=1):
    """Queue some milliseconds of work; the kernel's virtual ns each."""
    with vgpu.shape_only():
        x = torch.empty(10_000, 10_000, device=device)
        for _ in range(kernels):
            x.mul_(2)
    return costs.Kernel("", "pointwise", 8e8).duration_ns(vgpu.card())  # read and written


# -- enable -----------------------------------------------------------------------------------------


def test_enable_gives_the_device():
    device = vgpu.enable()
    assert str(device) == "vgpu:0"
    assert torch.ones(2, device="vgpu").device == torch.ones(2, device="vgpu:0").device == device


def test_enabling_twice_changes_nothing(device):
    busy(device)
    before = vgpu.timeline(), vgpu.timeline().host_ns, vgpu.memory()
    vgpu.enable()
    vgpu.enable("a10g")
    vgpu.enable(vgpu.CARDS["a10g"])
    assert (vgpu.timeline(), vgpu.timeline().host_ns, vgpu.memory()) == before
    from torch.optim import optimizer

    assert optimizer._foreach_supported_types.count(vgpu.VirtualTensor) == 1


def test_another_card_starts_at_zero(device):
    busy(device)
    vgpu.enable("h100")
    assert vgpu.card().key == "h100"
    assert vgpu.timeline().host_ns == 0
    assert vgpu.memory().capacity_bytes == 80 * 2**30
    assert torch.vgpu.get_device_name() == "NVIDIA H100 80GB HBM3"


def test_an_unknown_card_leaves_the_one_in_use(device):
    with pytest.raises(vgpu.UnknownCard, match="'tpu'.*a10g"):
        vgpu.enable("tpu")
    assert vgpu.card().key == "a10g"


def test_another_card_keeps_the_mode(device):
    with vgpu.shape_only():
        vgpu.enable("a100")
        assert vgpu.is_shape_only()


def test_the_card_does_not_change_while_a_profile_records(device):
    vgpu.timeline().recording = vgpu.Recording()
    try:
        with pytest.raises(RuntimeError, match="a profile records NVIDIA A10G"):
            vgpu.enable("a100")
    finally:
        vgpu.timeline().recording = None


def test_pytorch_knows_it_as_the_accelerator(device):
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator().type == "vgpu"
    assert torch.get_device_module(device) is torch.vgpu
    with torch.device(device):
        assert nn.Linear(2, 2).weight.device == device


# -- streams and events -----------------------------------------------------------------------------


def test_events_measure_virtual_time(device):
    start, end = torch.vgpu.Event(enable_timing=True), torch.vgpu.Event(enable_timing=True)
    busy(device)
    start.record()
    duration = busy(device, 3)
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) == 3 * duration / 1e6


def test_an_event_is_reached_when_the_host_has_waited(device):
    event = torch.vgpu.Event()
    assert event.query()
    busy(device)
    event.record()
    assert not event.query()
    event.synchronize()
    assert event.query()


@pytest.mark.parametrize("prepare, text", [
    (lambda a, b: None, "must be recorded"),
    (lambda a, b: (a.record(), b.record()), "device not ready"),
])
def test_times_of_events_that_are_not_there_are_errors(prepare, text, device):
    start, end = torch.vgpu.Event(enable_timing=True), torch.vgpu.Event(enable_timing=True)
    busy(device, 5)
    prepare(start, end)
    with pytest.raises(RuntimeError, match=text):
        start.elapsed_time(end)


def test_times_need_events_made_for_it(device):
    first, second = torch.vgpu.Event(), torch.vgpu.Event()
    with pytest.raises(RuntimeError, match="enable_timing=True"):
        first.elapsed_time(second)


def test_streams_run_side_by_side_and_wait_for_one_another(device):
    side = torch.vgpu.Stream()
    duration = busy(device)
    with torch.vgpu.stream(side):
        assert torch.vgpu.current_stream() == side
        busy(device)
    assert torch.vgpu.current_stream() == torch.vgpu.default_stream() != side
    ready = vgpu.timeline().device_ready_ns
    assert 2 * duration <= ready < 3 * duration  # a kernel that fills the card leaves the other none of it
    side.wait_stream(torch.vgpu.current_stream())
    with torch.vgpu.stream(side):
        busy(device)
    assert vgpu.timeline().device_ready_ns >= ready + duration
    assert not side.query()
    side.synchronize()
    assert side.query()


def test_no_stream_is_the_current_one(device):
    with torch.vgpu.stream(None):
        assert torch.vgpu.current_stream() == torch.vgpu.default_stream()


def test_the_stream_is_restored_after_an_error(device):
    with pytest.raises(ValueError, match="^inside$"), torch.vgpu.stream(torch.vgpu.Stream()):
        raise ValueError("inside")
    assert torch.vgpu.current_stream() == torch.vgpu.default_stream()


@pytest.mark.parametrize("synchronize", [lambda: torch.vgpu.synchronize(), lambda: torch.accelerator.synchronize()],
                         ids=["device", "accelerator"])
def test_synchronize_waits_for_every_stream(synchronize, device):
    with torch.vgpu.stream(torch.vgpu.Stream()):
        busy(device)
    ready = vgpu.timeline().device_ready_ns
    synchronize()
    assert vgpu.timeline().host_ns >= ready


def test_a_tensor_may_be_given_to_a_stream(device):
    torch.ones(2, device=device).record_stream(torch.vgpu.Stream())


def test_streams_of_other_devices_and_what_is_no_event_are_refused(device):
    for use in (lambda: torch.vgpu.Stream().wait_event("done"), lambda: torch.vgpu.Stream().wait_stream("side"),
                lambda: torch.vgpu.Event().record("side"), lambda: torch.vgpu.Event().wait("side")):
        with pytest.raises(TypeError, match="make one with torch.vgpu."):
            use()


def test_an_event_that_was_not_recorded_holds_nobody(device):
    torch.vgpu.Stream().wait_event(torch.vgpu.Event())
    torch.vgpu.Event().synchronize()
    assert vgpu.timeline().host_ns == 0


def test_an_event_recorded_again_is_the_later_point(device):
    event, side = torch.vgpu.Event(), torch.vgpu.Stream()
    event.record()
    event.wait(side)
    busy(device)
    event.record()
    assert side.query()  # it waited for the event as it was
    event.synchronize()
    assert torch.vgpu.current_stream().query()


def test_a_loop_that_asks_comes_to_an_end(device):
    busy(device)
    event = torch.vgpu.current_stream().record_event()
    asked, left_ns = 0, vgpu.timeline().device_ready_ns - vgpu.timeline().host_ns
    while not event.query():
        asked += 1
    assert asked == left_ns // vgpu.Timeline.QUERY_NS


@pytest.mark.parametrize("given, kept", [(0, 0), (-1, -1), (5, 0)])
def test_a_streams_priority_is_kept_and_changes_no_time(given, kept, device):
    stream = torch.vgpu.Stream(priority=given)
    assert stream.priority == kept
    assert torch.vgpu.current_stream().priority == 0


# -- memory and properties --------------------------------------------------------------------------


def test_memory_functions(device):
    torch.vgpu.empty_cache()
    before = torch.vgpu.memory_allocated()
    x = torch.empty(1024, device=device)
    assert torch.vgpu.memory_allocated(device) == before + 4096 <= torch.vgpu.memory_reserved()
    assert torch.vgpu.max_memory_allocated() >= before + 4096
    free, total = torch.vgpu.mem_get_info()
    assert (free, total) == (24 * 2**30 - torch.vgpu.memory_reserved(), 24 * 2**30)
    del x


def test_properties(device):
    properties = torch.vgpu.get_device_properties(0)
    assert (properties.name, properties.total_memory) == ("NVIDIA A10G", 24 * 2**30)
    assert torch.vgpu.get_device_capability() == (properties.major, properties.minor) == (8, 6)
    assert torch.vgpu.device_count() == 1
    assert torch.vgpu.current_device() == 0
    assert torch.vgpu.is_available()


def test_there_is_one_device(device):
    torch.vgpu.set_device(0)
    with torch.vgpu.device(device):
        pass
    with pytest.raises(RuntimeError, match="there is one virtual GPU"):
        torch.vgpu.set_device(1)


@pytest.mark.parametrize("seed", ["manual_seed", "manual_seed_all"])
def test_seeds(device, seed):
    getattr(torch.vgpu, seed)(5)
    assert torch.vgpu.initial_seed() == 5
    state = torch.vgpu.get_rng_state()
    first = torch.rand(3, device=device)
    torch.vgpu.set_rng_state(state)
    assert torch.equal(torch.rand(3, device=device), first)


# -- pinned memory ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tensor", [torch.arange(6.0).view(2, 3).t(), torch.tensor(3), torch.zeros(0, 2),
                                    torch.tensor([True])], ids=["transposed", "number", "empty", "bool"])
def test_pinned_memory_holds_the_same(tensor, device):
    pinned = tensor.pin_memory()
    assert pinned.is_pinned()
    assert not tensor.is_pinned()
    assert torch.equal(pinned, tensor)
    assert pinned.stride() == tensor.stride() or tensor.numel() == 0
    assert pinned[..., :1].is_pinned() if tensor.dim() else True


def test_memory_is_pinned_while_it_lives(device):
    from gapless.vgpu.ordering import pinned

    before = len(pinned._pinned)
    x = torch.zeros(100).pin_memory()
    view = x[3:]
    del x
    assert len(pinned._pinned) == before + 1
    del view
    assert len(pinned._pinned) == before


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_pins_its_batches(workers, device):
    data = torch.utils.data.TensorDataset(torch.arange(4.0))
    loader = torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True, num_workers=workers)
    assert [batch.is_pinned() for batch, in loader] == [True, True]


def test_a_copy_to_the_host_that_may_not_block_is_pinned(device):
    assert torch.ones(3, device=device).to("cpu", non_blocking=True).is_pinned()


# -- objects ----------------------------------------------------------------------------------------


def test_a_tensor_says_where_it_is(device):
    x = torch.ones(2, device=device)
    assert repr(x) == "tensor([1., 1.], device='vgpu:0')"
    assert repr(x > 0) == "tensor([True, True], device='vgpu:0')"
    assert f"{x.sum():.1f}" == "2.0"
    assert x.is_vgpu
    assert not x.is_cuda
    assert torch.ones(2).vgpu().device == device


def test_networks_are_copied_deeply(device):
    network = nn.Linear(2, 2).to(device)
    network(torch.ones(1, 2, device=device)).sum().backward()
    copied = copy.deepcopy(network)
    with torch.no_grad():
        copied.weight.zero_()
    assert network.weight.abs().sum() > 0
    assert isinstance(copied.weight, nn.Parameter)
    assert torch.equal(copied.weight.grad, network.weight.grad)
    with pytest.raises(RuntimeError, match="only leaf tensors"):
        copy.deepcopy(network.weight * 2)


def test_networks_are_saved_and_loaded(device):
    network = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).to(device)
    file = io.BytesIO()
    torch.save(network.state_dict(), file)
    for where in (None, device, "cpu"):
        file.seek(0)
        loaded = torch.load(file, map_location=where)
        assert {t.device.type for t in loaded.values()} == {"cpu" if where == "cpu" else "vgpu"}
        other = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).to(device)
        other.load_state_dict(loaded)
        assert torch.equal(other[0].weight, network[0].weight)


def test_a_network_is_pickled_whole(device):
    network = pickle.loads(pickle.dumps(nn.Linear(2, 2).to(device)))
    assert isinstance(network.weight, nn.Parameter)
    assert network.weight.requires_grad
    assert network.weight.device == device


def test_a_checkpoint_of_the_cpu_loads(device):
    file = io.BytesIO()
    torch.save(nn.Linear(2, 2).state_dict(), file)
    file.seek(0)
    nn.Linear(2, 2).to(device).load_state_dict(torch.load(file, map_location=device))


def test_a_process_that_has_used_cuda_is_warned():
    code = "import torch; torch.cuda.is_initialized = lambda: True; import gapless; gapless.device('vgpu')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "backward passes on CUDA will fail" in done.stderr


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_it_may_be_enabled_where_nothing_is_differentiated(mode):
    code = (f"import torch, gapless\nwith torch.{mode}():\n    device = gapless.device('vgpu')\n"
            "x = torch.ones(3, device=device, requires_grad=True)\nx.sum().backward()\nprint(x.grad.tolist())")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[1.0, 1.0, 1.0]\n"
