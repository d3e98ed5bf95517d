"""Compiled graphs: values as uncompiled, kernels and bytes as counted by hand, memory, waits, errors."""


import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from gapless import vgpu
from gapless.vgpu.compiling import regions
from gapless.vgpu.compiling.compile_times import Graph
from gapless.vgpu.compiling.region_plans import TRITON_NS
from gapless.vgpu.hardware.clock.compile_costs import call_ns
from gapless.vgpu.hardware.clock.timeline import Recording
from gapless.vgpu.process.state import state

from ..compiled import BYTES, COUNT, compiled, gelu, names, on_device


def test_gelu_keeps_nothing_but_its_input():
    x, = on_device(COUNT)
    before = state.memory.allocated_bytes
    out = compiled(gelu, x)
    assert state.memory.allocated_bytes - before == BYTES
    state.memory.reset_peak()
    out.backward(torch.ones_like(out))
    assert state.memory.peak_bytes - before == 3 * BYTES  # the result, its gradient, x's
    del out
    assert state.memory.allocated_bytes - before == BYTES


@pytest.mark.parametrize("reads", [lambda out: out + 1, lambda out: compiled(torch.sin, out)], ids=["eagerly", "compiled"])
def test_what_is_said_to_be_no_result_and_is_read_is_memory(reads):
    """A program in another process says what a graph returns."""
    x, = on_device(COUNT)
    before = state.memory.allocated_bytes
    with regions.running("forgetful"):
        out = gelu(x)
    assert state.memory.allocated_bytes == before
    found = reads(out)
    assert state.memory.allocated_bytes - before == 2 * BYTES
    del out, found
    assert state.memory.allocated_bytes == before


def test_the_host_pays_for_kernels_and_not_for_operators():
    x, = on_device(COUNT, grad=False)
    timeline = vgpu.timeline()
    timeline.reset()
    compiled(gelu, x)
    assert timeline.host_ns == call_ns(1, trains=False) + TRITON_NS + timeline.host.launch_ns


def test_a_trace_shows_the_region_and_no_operators():
    x, = on_device(COUNT, grad=False)
    timeline = vgpu.timeline()
    timeline.recording = recording = Recording(lines=False)
    try:
        compiled(lambda: torch.mm(gelu(x).view(512, 512), x.view(512, 512)))
    finally:
        timeline.recording = None
    assert [record.name for record in recording.records if record.category == "cpu_op"] == [
        "aten::mm", "Torch-Compiled Region: test"]


def test_a_wait_inside_launches_what_is_held_back(waits):
    x, = on_device(COUNT, grad=False)

    def function():
        total = gelu(x).sum()
        return gelu(x) * total.item()

    wanted = function()
    before = vgpu.timeline().kernel_count
    with waits() as found:
        out = compiled(function)
    assert len(found) == 1 and torch.equal(out.cpu(), wanted.cpu())
    assert vgpu.timeline().kernel_count - before == 3  # the sum, in two stages, and what comes behind the wait
    assert state.region is None


def test_what_comes_behind_a_wait_runs_as_if_nobody_had_compiled_it():
    x, = on_device(COUNT, grad=False)
    timeline = vgpu.timeline()

    def kernels(function):
        before = timeline.kernel_count
        function()
        return timeline.kernel_count - before

    def waits_first():
        x[0].item()
        return gelu(x)

    assert kernels(lambda: compiled(waits_first)) == kernels(waits_first) > kernels(lambda: compiled(gelu, x))
    assert kernels(lambda: compiled(waits_first, whole=True)) == kernels(lambda: compiled(gelu, x))  # as Dynamo leaves it out


@pytest.mark.parametrize("moves", [False, True])
def test_a_graph_that_is_one_launch_reads_its_inputs_where_they_lay(moves):
    inputs = [torch.randn(COUNT, device="vgpu:0") for _ in range(4)]
    graph, timeline, taken = Graph(-100 - moves, captured=True), vgpu.timeline(), []  # nobody else's number
    vgpu.forget_plans()
    for x in inputs if moves else inputs[:1] * 4:
        torch.vgpu.synchronize()
        before = timeline.captured_count
        with regions.running(graph) as region:
            region.returns(gelu(x))
        taken.append(timeline.captured_count - before)
    assert taken == ([1, 1, 1, 1] if moves else [1, 0, 0, 0])


def test_an_error_leaves_nothing_behind():
    x, = on_device(COUNT, grad=False)
    before = state.memory.allocated_bytes
    with pytest.raises(ZeroDivisionError), regions.running("test"):
        gelu(x)
        raise ZeroDivisionError
    assert state.region is None and state.memory.ledger is None and state.memory.allocated_bytes == before
    vgpu.timeline().reset()
    torch.sin(x)
    assert vgpu.timeline().host_ns > 0


def test_one_thread_at_a_time_runs_graphs():
    inside, most = [], []

    def work(graph):
        with regions.running(graph):
            inside.append(graph)
            time.sleep(0.05)  # long enough for the others to come in, if they can
            most.append(len(inside))
            inside.remove(graph)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, "abc"))
    assert most == [1, 1, 1]


def test_out_of_memory():
    before = state.memory.allocated_bytes
    with vgpu.shape_only():
        x = torch.empty(2**30, device="vgpu:0")

        def keeps_all(x):
            return [x + number for number in range(8)]

        with pytest.raises(torch.OutOfMemoryError):
            compiled(keeps_all, x)
        assert state.region is None
        assert compiled(lambda x: sum(keeps_all(x)), x).shape == x.shape  # what lives inside a kernel takes no memory
        del x
    assert state.memory.allocated_bytes == before


def test_another_process_tells_where_it_is(recorded):
    x, = on_device(COUNT, grad=False)

    def told():
        regions.told(regions.Place(10**6, "graph"))
        try:
            out = gelu(x)
            regions.ends(out)
            return out
        finally:
            regions.told(None)

    _, kernels = recorded(told)
    assert len(kernels) == 1


def test_two_backward_passes(recorded):
    x, = on_device(COUNT)
    out = compiled(gelu, x)
    first, = torch.autograd.grad(out, x, torch.ones_like(out), retain_graph=True)
    (second,), kernels = recorded(torch.autograd.grad, out, x, torch.ones_like(out))
    assert torch.equal(first.cpu(), second.cpu())
    assert names(kernels)[-1].startswith("triton_poi") and len(kernels) == 1


def test_gradients_are_added_by_a_kernel_of_their_own(recorded):
    x, = on_device(COUNT)
    x.grad = torch.zeros_like(x)
    out = compiled(gelu, x)
    _, kernels = recorded(out.backward, torch.ones_like(out))
    assert [name.split("_")[0] for name in names(kernels)] == ["triton", "pointwise"]
