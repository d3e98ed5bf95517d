"""cuDNN's autotuner: what a program with and without ``torch.backends.cudnn.benchmark`` runs, and what that takes."""

from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F

from gapless import profile, vgpu
from gapless.vgpu.hardware.times.plans import plans

MIB = 2**20


@contextmanager
def switched(**to):
    cudnn = torch.backends.cudnn
    before = {name: getattr(cudnn, name) for name in to}
    try:
        for name, value in to.items():
            setattr(cudnn, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(cudnn, name, value)


@pytest.fixture
def device():
    """A V100 with nothing chosen yet: float32 without TF32."""
    found = vgpu.enable("v100")
    vgpu.timeline().reset()
    vgpu.forget_plans()
    yield found
    vgpu.enable("a10g")


def layer(device, size=64, channels=64, batch=32, **more):
    x = torch.empty(batch, channels, size, size, device=device, **more)
    weight = torch.empty(64, channels, 3, 3, device=device, **more)
    return lambda: F.conv2d(x, weight, padding=1)


def device_ns(call) -> int:
    """From the call to the end of its work, of the device alone."""
    timeline = vgpu.timeline()
    timeline.synchronize_device()
    host = timeline.host_ns
    call()
    return timeline.current.ready_ns - host


def kernels_of(call, device) -> list[str]:
    return [event["name"] for event in profile(call, steps=1, warmup=0, device=device).events if event.get("cat") == "kernel"]


def test_without_the_switch_the_heuristics_choice_runs_from_the_first_call(device):
    with vgpu.shape_only():
        call = layer(device)
        first, second = kernels_of(call, device), kernels_of(call, device)
    assert first == second == ["convolution_forward_float32(implicit_gemm 128x64)"]


def test_with_it_each_plan_runs_twice_at_the_first_call_and_then_the_fastest(device):
    with vgpu.shape_only(), switched(benchmark=True):
        call = layer(device)
        first, second = kernels_of(call, device), kernels_of(call, device)
    assert second == ["convolution_forward_float32(winograd 1x8x16)"]
    tried = first[:-1]
    assert tried[::2] == tried[1::2] and len(set(tried)) == len(tried) // 2 == 8
    assert first[-1] == second[0] and second[0] in tried


def test_the_first_call_waits_for_the_device_and_for_each_trial(device):
    waits = []
    with vgpu.shape_only(), switched(benchmark=True):
        call = layer(device)
        vgpu.timeline().wait_hooks.append(waits.append)
        start_ns = vgpu.timeline().host_ns
        call()
        took_ns = vgpu.timeline().host_ns - start_ns
        names = [wait.name for wait in waits]
        call()
        vgpu.timeline().wait_hooks.remove(waits.append)
    assert names == ["cudaDeviceSynchronize", *["cudaDeviceSynchronize", "cudaEventSynchronize"] * 8]
    assert len(waits) == len(names)  # and the second call for nothing
    shape = vgpu.state.plans
    problem, = (key[0] for key in shape)
    assert took_ns > 2e9 * sum(plan.seconds for plan in plans(problem, vgpu.card(), "float32"))


def test_it_gains_what_the_plans_differ_by(device):
    def steady(benchmark):
        vgpu.forget_plans()
        with switched(benchmark=benchmark):
            call = layer(device)
            call()
            return device_ns(call)

    with vgpu.shape_only():
        assert 1.35 < steady(False) / steady(True) < 1.55


def test_a_new_size_format_or_direction_is_tuned_and_a_known_one_is_not(device):
    def launches(call):
        before = vgpu.timeline().kernel_count
        call()
        return vgpu.timeline().kernel_count - before

    with vgpu.shape_only(), switched(benchmark=True):
        assert launches(layer(device)) == 17
        assert launches(layer(device)) == 1  # other tensors of the same sizes
        assert launches(layer(device, size=62)) == 17
        assert launches(layer(device, batch=16)) == 17
        with switched(deterministic=True):
            assert launches(layer(device)) == 17
        x = torch.empty(32, 64, 64, 64, device=device, requires_grad=True)
        weight = torch.empty(64, 64, 3, 3, device=device, requires_grad=True)
        y = F.conv2d(x, weight, padding=1)
        assert launches(lambda: y.sum().backward()) > 30
        x, weight = (each.detach().contiguous(memory_format=torch.channels_last) for each in (x, weight))
        assert launches(lambda: F.conv2d(x, weight, padding=1)) == 17 * 3


def test_a_shape_that_has_run_keeps_its_plan_whatever_is_switched_then(device):
    with vgpu.shape_only():
        call = layer(device)
        call()
        with switched(benchmark=True):
            assert kernels_of(call, device) == ["convolution_forward_float32(implicit_gemm 128x64)"]
            vgpu.forget_plans()
            call()
        assert kernels_of(call, device) == ["convolution_forward_float32(winograd 1x8x16)"]


def test_the_limit_says_how_many_are_tried_in_the_heuristics_order(device):
    with vgpu.shape_only(), switched(benchmark=True, benchmark_limit=1):
        assert set(kernels_of(layer(device), device)) == {"convolution_forward_float32(implicit_gemm 128x64)"}
    vgpu.forget_plans()
    with vgpu.shape_only(), switched(benchmark=True, benchmark_limit=0):
        assert len(kernels_of(layer(device), device)) == 17


def test_the_trials_workspace_is_the_largest_of_all_plans_those_beyond_the_limit_too(device):
    peaks = []
    with vgpu.shape_only():
        for limit in (1, 0):
            with switched(benchmark=True, benchmark_limit=limit):
                vgpu.forget_plans()
                call = layer(device)
                vgpu.memory().reset_peak()
                call()
                peaks.append(vgpu.memory().peak_bytes - vgpu.memory().allocated_bytes)
    assert peaks[0] == peaks[1] > 100 * MIB


def test_default_precision_tunes_nothing(device):
    with vgpu.shape_only(), switched(benchmark=True), vgpu.default_precision():
        assert len(kernels_of(layer(device), device)) == 1


def test_where_switches_are_not_obeyed_the_limit_is_pytorchs(device):
    with vgpu.shape_only(), switched(benchmark=False, benchmark_limit=1), vgpu.default_precision(tuned=True):
        assert len(kernels_of(layer(device), device)) > 2


def test_a_slowed_card_has_plans_of_its_own(device):
    with vgpu.shape_only(), switched(benchmark=True):
        call = layer(device)
        call()
        before = vgpu.state.plans
        with vgpu.on_card(vgpu.card().slowed(2)):
            assert not vgpu.state.plans
        assert vgpu.state.plans is before


# -- memory -----------------------------------------------------------------------------------------


def peak(call) -> int:
    memory = vgpu.memory()
    memory.peak_bytes = before = memory.allocated_bytes
    out = call()
    found = memory.peak_bytes - before
    assert memory.allocated_bytes - before == out.untyped_storage().nbytes()  # workspaces are given back
    return found - out.untyped_storage().nbytes()


def test_trials_take_the_largest_workspace_at_once_and_the_chosen_plan_its_own(device):
    with vgpu.shape_only(), switched(benchmark=True):
        call = layer(device)
        trial, steady = peak(call), peak(call)
        (problem, dtype, _), chosen = *vgpu.state.plans, *vgpu.state.plans.values()
    assert trial == max(plan.workspace_bytes for plan in plans(problem, vgpu.card(), dtype)) > 100 * MIB
    assert steady == chosen.workspace_bytes < MIB


def test_what_does_not_fit_is_not_taken(device):
    # 11×11 windows: the FFT's, with much workspace, is the fastest by far.
    def call():
        return F.conv2d(x, weight, padding=5)

    with vgpu.shape_only():
        x, weight = torch.empty(64, 64, 56, 56, device=device), torch.empty(64, 64, 11, 11, device=device)
        assert "fft" in kernels_of(call, device)[0]
        memory = vgpu.memory()
        memory.empty_cache()
        taken = torch.empty(memory.free_bytes // MIB * MIB - 60 * MIB, dtype=torch.uint8, device=device)
        assert "implicit_gemm" in kernels_of(call, device)[0]  # the kept plan has no room any more
        vgpu.forget_plans()
        with switched(benchmark=True):
            assert {name.partition("(")[2].partition(" ")[0] for name in kernels_of(call, device)} == {"implicit_gemm"}
        del taken


def test_cudnns_cap_on_workspaces(device, monkeypatch):
    monkeypatch.setenv("CUDNN_CONV_WSCAP_DBG", "0")
    with vgpu.shape_only(), switched(benchmark=True):
        assert peak(layer(device)) == 0 and vgpu.state.plans


def test_values_are_the_same_whatever_runs(device):
    torch.manual_seed(0)
    x, weight = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3)
    expected = F.conv2d(x, weight)
    for benchmark in (False, True):
        vgpu.forget_plans()
        with switched(benchmark=benchmark):
            torch.testing.assert_close(F.conv2d(x.to(device), weight.to(device)).cpu(), expected)
