"""What each debug aid costs a step, and the evidence that it leaves."""

import subprocess
import sys

import pytest
import torch
from torch import nn

import gapless
from gapless import vgpu
from gapless.vgpu.hardware.clock.debug_aids import PROFILED_NS, RANGE_NS, STACK_NS

from ... import ROOT

LAYERS = 4


@pytest.fixture
def step(device):
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(LAYERS))).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(8, 64, device=device)

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def found(step, device):
    """The step's time (ms) and the report of its trace."""
    return (gapless.time_step(step, device=device).true_ms,
            gapless.StepReport.from_trace(gapless.profile(step, device=device)))


def spans(report, category):
    return [span for span in report.trace.spans if span.category == category]


def test_anomaly_detection_reads_back_each_gradient_and_writes_down_each_stack(device, step):
    """torch/csrc/autograd/engine.cpp: ``isnan(output)._is_any_true().item<bool>()`` for each output of each node."""
    def debugged():
        with torch.autograd.set_detect_anomaly(True):
            step()

    (plain_ms, plain), (ms, report) = found(step, device), found(debugged, device)
    checks = report.syncs_per_step
    assert plain.syncs_per_step == 0
    assert checks >= 4 * LAYERS
    assert report.kernels - plain.kernels == 2 * checks
    assert {sync.op for sync in report.syncs_in_steps} == {"aten::item"}
    stacks = sum(span.name.endswith("format_stack") for span in spans(report, "python")) / 3
    assert stacks > LAYERS
    assert ms - plain_ms > stacks * STACK_NS / 1e6


def test_anomaly_detection_without_the_check_only_writes_stacks_down(device, step):
    def debugged():
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            step()

    _, report = found(debugged, device)
    assert report.syncs_per_step == 0
    assert any(span.name.endswith("format_stack") for span in spans(report, "python"))


@pytest.mark.parametrize("profiler", [
    pytest.param(lambda: torch.autograd.profiler.profile(), id="torch.autograd.profiler"),
    pytest.param(lambda: torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]), id="torch.profiler"),
])
def test_a_profiler_left_on_makes_each_operator_longer(device, step, profiler):
    def debugged():
        with profiler():
            step()

    (plain_ms, plain), (ms, report) = found(step, device), found(debugged, device)
    operators = [span for span in spans(plain, "op") if span.name.startswith("aten::")]
    assert ms - plain_ms > len(operators) / 3 * PROFILED_NS / 1e6
    assert {round((slow.end_us - slow.start_us - fast.end_us + fast.start_us) * 1e3) for slow, fast in zip(
        (span for span in spans(report, "op") if span.name == "aten::addmm"),
        (span for span in spans(plain, "op") if span.name == "aten::addmm"), strict=True)} == {PROFILED_NS}
    assert not vgpu.state.aids.profiled


def test_emit_nvtx_puts_a_block_around_each_operator_and_waits_at_both_ends(device, step):
    def debugged():
        with torch.autograd.profiler.emit_nvtx():
            step()

    (plain_ms, plain), (ms, report) = found(step, device), found(debugged, device)
    assert report.syncs_per_step == 2
    assert ms > plain_ms + len(spans(plain, "op")) / 3 * RANGE_NS / 1e6
    names = [span.name for span in spans(report, "annotation")]
    assert names.count("aten::addmm") == 3 * LAYERS
    assert "aten::addmm" not in [span.name for span in spans(plain, "annotation")]
    assert not vgpu.state.aids.ranges


def test_gradcheck_in_the_loop_is_many_small_operators_in_double_precision(device, step):
    x = torch.randn(3, 3, dtype=torch.float64, device=device, requires_grad=True)

    def debugged():
        assert torch.autograd.gradcheck(lambda x: x.square().sum(), x)
        step()

    (plain_ms, plain), (ms, report) = found(step, device), found(debugged, device)
    assert report.kernels > 3 * plain.kernels
    assert report.syncs_per_step > 0
    assert ms > 2 * plain_ms


def test_launches_that_wait_are_waits_in_the_report(device, step):
    def debugged():
        with vgpu.launch_blocking():
            step()

    (plain_ms, plain), (ms, report) = found(step, device), found(debugged, device)
    assert not vgpu.is_launch_blocking()
    assert ms > plain_ms
    assert report.kernels == plain.kernels
    waits = [sync for sync in report.syncs_in_steps if sync.kind == "launch"]
    assert len(waits) == 3 * report.kernels == len(report.syncs_in_steps)
    assert {sync.name for sync in waits} == {"cudaLaunchKernel"}
    assert all(sync.op.startswith("aten::") and sync.location for sync in waits)


def test_a_switch_stays_until_it_is_switched_back(device):
    vgpu.launch_blocking(True)
    vgpu.enable("t4")
    assert vgpu.timeline().aids.blocking
    vgpu.launch_blocking(False)
    assert not vgpu.timeline().aids.blocking


def test_the_environment_switches_it_on_at_the_start():
    done = subprocess.run([sys.executable, "-c", "from gapless import vgpu; vgpu.enable(); print(vgpu.is_launch_blocking())"],
                          cwd=ROOT, env={"GAPLESS_LAUNCH_BLOCKING": "1", "PYTHONPATH": str(ROOT / "src")},
                          capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "True", done.stderr
