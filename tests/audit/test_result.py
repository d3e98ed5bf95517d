"""What a step is bound by, what its waits cost, what else is said of it."""

import pytest
import torch

import gapless

from .made_up import made, training


@pytest.fixture(autouse=True)
def device():
    gapless.vgpu.enable("a10g")
    gapless.vgpu.timeline().reset()


@pytest.mark.slow
@pytest.mark.parametrize("bound, step", [
    ("input", {"input_ms": 5.0}), ("host", {"host_ms": 5.0}), ("device", {"size": 2500}),
    ("waits", {"size": 2500, "host_ms": 8.0, "reads": 1}), ("input", {"input_ms": 5.0, "reads": 2}),
])
def test_what_bounds_a_step(bound, step):
    found = made(training(**step))
    assert found.bound == bound
    assert found.parts_ms["communication"] == 0
    assert found.step_ms == pytest.approx(found.report.host_step_ms, rel=0.5) or bound == "device"


@pytest.mark.slow
def test_a_wait_costs_what_the_program_without_it_takes_less():
    waits, none = (made(training(size=1800, host_ms=8.0, reads=reads)) for reads in (1, 0))
    (line,) = waits.waits
    assert line.costs_ms == pytest.approx(waits.step_ms - none.step_ms, rel=0.05) and line.costs_ms > 3
    assert line.line == "loss.item()" and line.location.startswith("audit/made_up.py:") and line.times == 1
    assert line.advice.lesson == "00" and not none.waits


def test_waits_of_one_line_are_one_row():
    (line,) = made(training(reads=3)).waits
    assert line.times == 3


@pytest.mark.slow
def test_a_wait_that_costs_nothing_is_listed_still():
    found = made(training(size=2500, reads=1))
    assert found.waits[0].wait_ms > 7 and found.waits[0].costs_ms < 0.1 * found.step_ms and found.bound == "device"


def titles(found):
    return [remark.title.partition(":")[0].partition(" (")[0] for remark in found.remarks]


@pytest.mark.slow
def test_remarks_have_their_evidence():
    assert titles(made(training(input_ms=20.0))) == ["The GPU waits for batches"]
    slow = made(training(foreach=False, layers=6))
    assert titles(slow) == ["The host cannot keep the GPU busy", "The optimizer keeps the host busy"]
    assert 0 < slow.remarks[1].costs_ms < slow.remarks[0].costs_ms < slow.step_ms
    with gapless.vgpu.shape_only():  # else the host computes for minutes
        (products,) = made(training(size=2500)).remarks
        assert products.title.startswith("Matrix products and convolutions in float32") and products.lesson == "05"
        assert not made(training(size=2500, dtype=torch.bfloat16)).remarks


def test_kernels_that_the_memorys_bandwidth_limits():
    x = torch.randn(2000, 2000, device="vgpu:0", requires_grad=True)
    found = made(lambda: x.sigmoid().tanh().exp().mul(3).sum().backward())
    assert found.bound == "device" and next(iter(found.kinds_ms)) == "elementwise"
    assert found.kinds_ms["elementwise"] > 0.6 * found.report.device_busy_ms > 0.6 * found.kinds_ms["elementwise"]
    assert "the memory's bandwidth limits them" in found.remarks[0].title


def test_without_profiled_steps_there_is_none():
    with pytest.raises(ValueError, match="no profiled steps"):
        gapless.vgpu.timeline().reset()
        from gapless.audit.result import Audit

        Audit.of("train.py", gapless.Trace([]), {})


@pytest.mark.parametrize("host, device, host_ms, bounds", [
    (8.0, 2.0, [10, 10, 10], ("host",)), (8.0, 7.5, [10, 10, 10], ("host", "device")), (8.0, 5.0, [10, 10, 10], ("host",)),
    (8.0, 5.0, [5, 15], ("host", "device"))])
def test_two_causes_are_named_where_one_is_not_certain(host, device, host_ms, bounds):
    from gapless.audit.result import _bounds, _spread

    parts = {"input": 0.0, "waits": 0.0, "communication": 0.0, "host": host, "device": device}
    assert _bounds(parts, 10.0, _spread({"host_ms": host_ms})) == bounds


@pytest.mark.parametrize("plain_ms, says", [
    (None, "Times are the profiler's."),
    (8.0, "Times are the profiler's. Without it a step took 8.00 ms, and the GPU's work takes 4.00 ms."),
    (4.2, "Times are the profiler's. Without it a step took 4.20 ms, and the GPU's work takes 4.00 ms: it is the GPU that bounds "
          "the step, and what the host does above is the profiler's cost.")])
def test_on_a_real_gpu_a_step_without_the_profiler_is_told(plain_ms, says):
    from types import SimpleNamespace

    from gapless.audit.markdown import clock

    report = SimpleNamespace(simulated=False, device_busy_ms=4.0)
    assert clock(SimpleNamespace(report=report, facts={"unrecorded_ms": plain_ms})) == says
