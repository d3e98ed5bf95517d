"""What the host does by itself comes onto its clock while something is measured, and only then."""

import cProfile
import gc
import re
import sys
import typing
import warnings

import pytest
import torch

import gapless
from gapless import vgpu
from gapless.vgpu.host.host_clock import counting, uncounted


@pytest.fixture
def device():
    found = vgpu.enable("a10g")
    vgpu.timeline().reset()
    return found


def function():
    pass


def elapsed(work) -> int:
    vgpu.timeline().catch_up()
    start = vgpu.timeline().host_ns
    work()
    vgpu.timeline().catch_up()
    return vgpu.timeline().host_ns - start


def call_ns() -> int:
    return vgpu.card().host.python_call_ns


def test_nothing_is_counted_outside_a_measurement(device):
    assert elapsed(lambda: [function() for _ in range(100)]) == 0
    assert vgpu.state.counting is None and vgpu.timeline().counted is None


def test_each_call_takes_its_time(device):
    with counting():
        nothing = elapsed(lambda: None)
        assert elapsed(lambda: [function() for _ in range(100)]) - nothing == 100 * call_ns()


def test_measurements_nest(device):
    with counting():
        with counting():
            pass
        before = elapsed(lambda: None)
        assert elapsed(function) == before > 0
    assert vgpu.timeline().counted is None


def test_what_is_put_aside_is_not_counted(device):
    def work():
        with uncounted():
            for _ in range(100):
                function()
            torch.ones(1000) + 1

    with counting():
        assert elapsed(work) < 20 * call_ns()
    assert elapsed(lambda: torch.ones(3)) == 0


def test_python_between_two_operators_is_a_gap_in_the_trace(device):
    x = torch.ones(3, device=device)

    def step():
        x.add_(1)
        for _ in range(10):
            function()
        x.add_(1)

    trace = gapless.profile(step, steps=1, device=device)
    first, second = [e for e in trace.events if e.get("cat") == "cpu_op"]
    assert round(1e3 * (second["ts"] - first["ts"] - first["dur"])) == 10 * call_ns()


def test_pythons_work_delays_the_launch_and_not_what_runs(device):
    x = torch.ones(3, device=device)

    def step(calls):
        for _ in range(calls):
            function()
        x.add_(1)

    few, many = (gapless.time_step(lambda calls=calls: step(calls), device=device, steps=10) for calls in (1, 101))
    assert round(1e6 * (many.host_ms - few.host_ms)) == 100 * call_ns()
    assert round(1e6 * (many.true_ms - few.true_ms)) == 100 * call_ns()


def test_the_device_s_own_python_and_pytorchs_for_it_are_not_counted(device):
    """The same program has the same calls whatever the operators cost us in Python."""
    x = torch.ones(100, 100, device=device)
    host = vgpu.card().host

    def step():
        x.add_(1)
        torch.mm(x, x)

    with counting():
        step()
        vgpu.timeline().catch_up()
        assert elapsed(step) == call_ns() + host.op_ns + host.library_op_ns + 2 * host.launch_ns


def test_the_same_program_takes_the_same_time(device):
    network = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU()).to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    x = torch.ones(4, 8, device=device)

    def step():
        optimizer.zero_grad()
        network(x).sum().backward()
        optimizer.step()

    times = {gapless.time_step(step, device=device).true_ms for _ in range(3)}
    assert len(times) == 1
    assert times.pop() * 1e6 > 50 * call_ns()


def test_what_is_remembered_from_before_takes_no_other_time(device):
    def work():
        typing.Optional[Unknown], re.compile("a+b"), typing.Union[int, Unknown, str]  # noqa: UP007, UP045
        warnings.warn("once in a while", stacklevel=1)
        torch.ops.aten.acosh_

    def forget():
        for clear in typing._cleanups:
            clear()
        re.purge()
        torch.ops.aten.__dict__.pop("acosh_", None)

    class Unknown:
        pass

    work()
    with counting(), warnings.catch_warnings(record=True):
        remembered = elapsed(work)
        forget()
        assert elapsed(work) == remembered


@pytest.mark.parametrize("others", [0, 2])
def test_what_the_garbage_collector_does_is_not_the_programs(others, device, request):
    """Nor are the callbacks that others have with it: IPython's and Hypothesis' among them."""
    ran = []
    theirs = [lambda phase, info: ran.append(phase) for _ in range(others)]
    gc.callbacks.extend(theirs)
    request.addfinalizer(lambda: [gc.callbacks.remove(each) for each in theirs])

    class Garbage:
        def __init__(self):
            self.own = self

        def __del__(self):
            function()

    def collected():
        gc.collect()
        function()

    with counting():
        gc.collect()
        nothing = elapsed(collected)
        made = [Garbage() for _ in range(10)]
        vgpu.timeline().catch_up()
        del made
        assert elapsed(collected) == nothing == 2 * call_ns()
        assert elapsed(function) == call_ns()
    assert bool(ran) == bool(others) and not any("python_work" in str(getattr(each, "__module__", "")) for each in gc.callbacks)


def test_an_error_in_a_step_ends_the_counting(device):
    def step():
        raise KeyError("mine")

    for measure in (gapless.time_step, gapless.profile):
        with pytest.raises(KeyError):
            measure(step, warmup=0, device=device)
    assert vgpu.state.counting is None and torch._C._len_torch_dispatch_stack() == 0


def test_another_card_inside_a_measurement_goes_on_counting(device):
    with counting():
        vgpu.enable("a100")
        assert elapsed(function) == call_ns()
    vgpu.enable("a10g")


def test_custom_operators_python_is_the_programs(device):
    @torch.library.custom_op("tests_host_clock::plus", mutates_args=())
    def plus(x: torch.Tensor) -> torch.Tensor:
        for _ in range(50):
            function()
        return x + 1

    x = torch.ones(3, device=device)
    plus(x)
    with counting():
        assert elapsed(lambda: plus(x)) > 50 * call_ns()


@pytest.mark.skipif(hasattr(sys, "monitoring"), reason="there a profiler and the counter do not meet")
def test_a_profiler_in_the_way_is_an_error_and_leaves_nothing_behind(device):
    x = torch.ones(3, device=device)
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        for measure in (gapless.time_step, gapless.profile):
            with pytest.raises(RuntimeError, match="a profiler .* is at work"):
                measure(lambda: x + 1, device=device)
    finally:
        profiler.disable()

    def takes_its_place():
        sys.setprofile(None)
        x.add_(1)

    for measure in (gapless.time_step, gapless.profile):
        with pytest.raises(RuntimeError, match="has replaced the profile function"):
            measure(takes_its_place, device=device)
    assert gapless.profile(lambda: x + 1, device=device).events
    assert torch._C._len_torch_dispatch_stack() == 0 and sys.getprofile() is None


def test_what_is_put_aside_inside_an_operator_leaves_no_mode_behind(device):
    """As Dynamo does, which looks at each Python frame, those of an operator's implementation among them."""
    @torch.library.custom_op("tests_host_clock::aside", mutates_args=())
    def aside(x: torch.Tensor) -> torch.Tensor:
        with uncounted():
            return x + 1

    before = torch._C._len_torch_dispatch_stack()
    with counting():
        aside(torch.ones(3))
        assert torch._C._len_torch_dispatch_stack() == before + 1
    assert torch._C._len_torch_dispatch_stack() == before
