"""torch.vgpu has what torch.cuda has, or says what to call."""

import pickle

import pytest
import torch

import gapless
from gapless import vgpu
from gapless.vgpu.face.cuda_face import INSTEAD


@pytest.mark.parametrize("name", torch.cuda.__all__)
def test_each_name_is_there_or_says_what_to_call(name, device):
    if name in INSTEAD:
        assert not hasattr(torch.vgpu, name)
        with pytest.raises(AttributeError, match=f"torch.vgpu has no {name}: ."):
            getattr(torch.vgpu, name)
    else:
        getattr(torch.vgpu, name)


def test_no_advice_is_for_what_is_there(device):
    assert not [name for name in INSTEAD if name in dir(torch.vgpu)]


def test_memory_reports(device):
    torch.vgpu.reset_max_memory_allocated()
    x = torch.empty(2**20, device=device)
    summary = torch.vgpu.memory_summary()
    assert "vgpu:0" in summary and "simulated" in summary
    current = torch.vgpu.memory_allocated() / 2**20
    assert any("allocated" in line and f"{current:.2f}" in line for line in summary.splitlines())
    assert torch.vgpu.memory_cached() == torch.vgpu.device_memory_used() == torch.vgpu.memory_reserved()
    assert torch.vgpu.memory_reserved() >= torch.vgpu.memory_allocated()
    peak = torch.vgpu.max_memory_allocated()
    del x
    torch.vgpu.reset_max_memory_cached()
    assert torch.vgpu.max_memory_allocated() < peak
    assert torch.vgpu.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["peak"] == torch.vgpu.memory.max_memory_allocated()


def test_a_part_of_the_memory(device):
    try:
        torch.vgpu.set_per_process_memory_fraction(0.25)
        assert torch.vgpu.get_per_process_memory_fraction() == 0.25
        with vgpu.shape_only(), pytest.raises(torch.vgpu.OutOfMemoryError):
            torch.empty(7 * 2**30, dtype=torch.uint8, device=device)
    finally:
        torch.vgpu.set_per_process_memory_fraction(1.0)
    with pytest.raises(ValueError, match="0~1"):
        torch.vgpu.set_per_process_memory_fraction(2.0)


def test_amp(device):
    from torch.vgpu.amp import GradScaler, autocast

    with autocast(dtype=torch.float16):
        assert (torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)).dtype == torch.float16
    assert GradScaler().is_enabled() and GradScaler()._device == "vgpu"

    class Double(torch.autograd.Function):
        @staticmethod
        @torch.vgpu.amp.custom_fwd(cast_inputs=torch.float32)
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @torch.vgpu.amp.custom_bwd
        def backward(ctx, gradient):
            return gradient * 2

    x = torch.ones(2, dtype=torch.float16, device=device, requires_grad=True)
    with autocast():
        y = Double.apply(x)
    y.sum().backward()
    assert y.dtype == torch.float32 and x.grad.tolist() == [2, 2]


def test_nvtx_blocks_are_in_a_profile(device):
    from torch.vgpu import nvtx

    def step():
        with nvtx.range("batch {}", 3):
            torch.ones(2, device=device).add(1)
        assert nvtx.range_push("outer") == 0
        assert nvtx.range_push("inner") == 1
        number = nvtx.range_start("across")
        assert (nvtx.range_pop(), nvtx.range_pop(), nvtx.range_pop()) == (1, 0, -1)
        nvtx.range_end(number)
        nvtx.mark("here")

    trace = gapless.profile(step, steps=1)
    names = [span.name for span in trace.spans if span.category == "annotation"]
    assert {"batch 3", "outer", "inner", "across", "here"} <= set(names)


def test_questions(device):
    assert not torch.vgpu.can_device_access_peer(0, 0)
    assert torch.vgpu.is_tf32_supported() and torch.vgpu.get_arch_list() == ["sm_86"]
    assert not torch.vgpu.is_current_stream_capturing()
    with torch.vgpu.device_of(torch.ones(2, device=device)), torch.vgpu.device_of(torch.ones(2)):
        pass


def test_a_snapshot_can_be_read_by_pytorchs_own_tool(device, tmp_path):
    from torch.cuda import _memory_viz

    x = torch.empty(3 * 2**20, dtype=torch.uint8, device=device)
    torch.vgpu.memory._dump_snapshot(tmp_path / "snapshot.pickle")
    snapshot = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    assert "3.0MiB" in _memory_viz.segsum(snapshot) and x.numel()
    assert _memory_viz.segment_plot(snapshot)
