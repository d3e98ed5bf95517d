"""When compiling takes time: where a graph first runs what it runs."""

import torch

from gapless import vgpu
from gapless.measure.profile import profile
from gapless.vgpu.compiling import regions
from gapless.vgpu.compiling.compile_times import Graph, charge
from gapless.vgpu.hardware.clock.compile_costs import compile_ns


def spent(function):
    before = vgpu.timeline().host_ns
    function()
    return vgpu.timeline().host_ns - before


def test_a_graph_is_compiled_once_for_what_it_runs(device):
    graph = Graph(10**6)
    wanted = compile_ns(1, 1, 1, vgpu.timeline().host.cores)
    assert spent(lambda: charge(graph, "this", ["pointwise", "reduction"], 1)) == wanted
    assert spent(lambda: charge(graph, "this", ["pointwise", "reduction"], 1)) == 0
    assert spent(lambda: charge(graph, "that", ["pointwise", "reduction"], 1)) == wanted
    assert 0 < spent(lambda: charge(graph, "this", ["pointwise"], 1, backward=True)) < wanted


def test_the_number_is_not_believed(device):
    """A program that says one number for all that it does."""
    x, graph = torch.ones(8, device=device), Graph(10**6 + 1)

    def runs(function):
        with regions.running(graph) as region:
            region.returns(function(x))

    assert spent(lambda: runs(torch.sin)) > 10_000_000
    assert spent(lambda: runs(torch.cos)) > 10_000_000
    assert spent(lambda: runs(lambda x: torch.sin(x[:4]))) > 10_000_000
    assert spent(lambda: runs(torch.sin)) < 1_000_000


def test_a_dynamic_graph_is_for_all_shapes(device):
    graph = Graph(10**6 + 2, dynamic=True)
    for length in (4, 5, 6):
        x = torch.ones(length, device=device)

        def run():
            with regions.running(graph) as region:
                region.returns(x.sin())

        assert (spent(run) > 10_000_000) == (length == 4)


def test_it_is_a_block_of_a_trace(device):
    torch._dynamo.reset()
    trace = profile(lambda: torch.compile(lambda x: x.sin() + 1)(torch.ones(4, device=device)), steps=1, warmup=0)
    names = [event["name"] for event in trace.events]
    assert "_compile.compile_inner (dynamo_timed)" in names
    assert any(name.startswith("Torch-Compiled Region: 0/0") for name in names)
