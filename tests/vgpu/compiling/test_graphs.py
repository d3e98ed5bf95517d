"""A step captured and replayed: values, clocks, what a capture refuses and with which words."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gapless
from gapless import vgpu
from gapless.vgpu.compiling.graphs import AcceleratorGraph


def network(device):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(device)


def batches(count=4):
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(32, 8, generator=generator), torch.randint(4, (32,), generator=generator)) for _ in range(count)]


def optimizers():
    yield "sgd", lambda p: torch.optim.SGD(p, lr=0.1)
    yield "sgd, momentum", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)
    yield "adam, capturable", lambda p: torch.optim.Adam(p, lr=0.01, capturable=True)
    yield "adamw, fused", lambda p: torch.optim.AdamW(p, lr=0.01, fused=True, capturable=True)


def warmed_up(step, times=3):
    """As PyTorch's notes ask: a few steps on a side stream before the capture."""
    side = torch.vgpu.Stream()
    side.wait_stream(torch.vgpu.current_stream())
    with torch.vgpu.stream(side):
        for _ in range(times):
            step()
    torch.vgpu.current_stream().wait_stream(side)


class Training:
    """A step on static inputs."""

    def __init__(self, device, make_optimizer, x, y):
        self.model = network(device)
        self.optimizer = make_optimizer(self.model.parameters())
        self.x, self.y = x.to(device), y.to(device)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return loss

    def parameters(self):
        return [parameter.detach().cpu() for parameter in self.model.parameters()]


@pytest.mark.parametrize("make_optimizer", [pytest.param(make, id=name) for name, make in optimizers()])
def test_replays_train_as_the_step_does(device, make_optimizer):
    """Forward, backward and optimizer in one graph; each replay sees the batch that was copied into the static inputs."""
    data = batches()
    eager, captured = (Training(device, make_optimizer, *data[0]) for _ in range(2))
    for _ in range(3):
        eager.step()
    warmed_up(captured.step)
    before = captured.parameters()
    graph = torch.vgpu.CUDAGraph()
    captured.optimizer.zero_grad(set_to_none=True)
    with torch.vgpu.graph(graph):
        loss = captured.step()
    assert all(map(torch.equal, captured.parameters(), before))  # a capture runs nothing
    assert loss.isnan().item()
    for x, y in data:
        for training in (eager, captured):
            training.x.copy_(x)
            training.y.copy_(y)
        wanted = eager.step()
        graph.replay()
        assert torch.equal(loss.detach().cpu(), wanted.detach().cpu())
        assert all(map(torch.equal, captured.parameters(), eager.parameters()))


def captured_step(device):
    training = Training(device, lambda p: torch.optim.SGD(p, lr=0.1), *batches(1)[0])
    warmed_up(training.step)
    graph = torch.vgpu.CUDAGraph()
    with torch.vgpu.graph(graph):
        training.step()
    return graph, training


def test_a_replay_is_one_launch(device):
    graph, training = captured_step(device)
    graph.replay()
    torch.vgpu.synchronize()
    timeline = vgpu.timeline()
    start, kernels = timeline.host_ns, timeline.kernel_count
    graph.replay()
    count = timeline.kernel_count - kernels
    assert timeline.host_ns - start == 2_500 + count + 1  # NVIDIA's: 2.5 µs and 1 ns a node; one is a memset
    replayed = timeline.device_ready_ns - timeline.host_ns
    torch.vgpu.synchronize()
    start, kernels = timeline.host_ns, timeline.kernel_count
    training.step()
    assert timeline.kernel_count - kernels == count
    assert timeline.host_ns - start > 100 * count
    assert 0 < replayed < count * 2_400


@pytest.mark.parametrize("waits", [
    pytest.param(lambda x, device: x.sum().item(), id="item"),
    pytest.param(lambda x, device: bool((x > 0).all()), id="bool"),
    pytest.param(lambda x, device: x[x > 0], id="a mask"),
    pytest.param(lambda x, device: x.nonzero(), id="nonzero"),
    pytest.param(lambda x, device: torch.vgpu.synchronize(), id="synchronize"),
    pytest.param(lambda x, device: torch.vgpu.current_stream().synchronize(), id="stream"),
])
def test_a_wait_ends_the_capture_with_cudas_errors(device, waits):
    x = torch.randn(100, device=device)
    graph = torch.vgpu.CUDAGraph()
    with pytest.raises(torch.AcceleratorError, match="operation failed due to a previous error during capture") as ended:
        with torch.vgpu.graph(graph):
            y = x * 2
            waits(y, device)
    assert "CUDA error: operation not permitted when stream is capturing\nSearch for `cudaErrorStreamCaptureUnsupported'" in (
        str(ended.value.__context__))
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    assert (x + 1).sum().isfinite().item()  # the device is usable again
    again = torch.vgpu.CUDAGraph()
    with torch.vgpu.graph(again):
        y = x * 2
    again.replay()
    assert torch.equal(y.cpu(), 2 * x.cpu())


def test_the_neutral_name(device):
    """As PyTorch's own example of torch.accelerator.Graph."""
    x, stream, graph = torch.zeros(2000, device=device), torch.vgpu.Stream(), AcceleratorGraph()
    if hasattr(torch.accelerator, "Graph"):
        assert torch.accelerator.Graph is AcceleratorGraph
    stream.wait_stream(torch.vgpu.current_stream())
    with stream, graph:
        x += 1
    assert x.sum().item() == 0
    graph.replay()
    graph.replay()
    assert x.sum().item() == 4000


# -- what a capture takes and refuses -------------------------------------------------------------------


@pytest.mark.parametrize("copies", [
    pytest.param(lambda x, device: torch.zeros(4).to(device), id="to the device"),
    pytest.param(lambda x, device: torch.tensor(3.0, device=device), id="a number"),
    pytest.param(lambda x, device: x.cpu(), id="to the host"),
    pytest.param(lambda x, device: repr(x), id="printing"),
])
def test_a_copy_that_is_not_pinned_is_refused_in_pytorchs_words(device, copies):
    x, graph = torch.ones(4, device=device), torch.vgpu.CUDAGraph()
    with pytest.raises(RuntimeError, match="Cannot copy between CPU and CUDA tensors during CUDA graph capture"):
        with torch.vgpu.graph(graph):
            y = x + 1
            copies(y, device)
    graph.replay()  # CUDA never heard of it: the capture up to there stands
    assert y.tolist() == [2.0] * 4


def test_pinned_memory_is_read_and_written_when_the_graph_runs(device):
    source, target = torch.zeros(4).pin_memory(), torch.zeros(4).pin_memory()
    static, graph = torch.zeros(4, device=device), torch.vgpu.CUDAGraph()
    with torch.vgpu.graph(graph):
        static.copy_(source, non_blocking=True)
        target.copy_(static * 2, non_blocking=True)
    source.fill_(3.0)
    graph.replay()
    assert all(map(math.isnan, target.tolist()))  # the copy is on its way
    torch.vgpu.synchronize()
    assert target.tolist() == [6.0] * 4


def test_optimizers_are_asked_whether_they_can_be_captured(device):
    parameter = nn.Parameter(torch.ones(3, device=device))
    parameter.grad = torch.ones(3, device=device)
    optimizer = torch.optim.Adam([parameter])
    optimizer.step()
    with pytest.raises(RuntimeError, match="graph capture of step.. for an instance of Adam but param_groups' capturable is False"):
        with pytest.warns(UserWarning, match="The CUDA Graph is empty"), torch.vgpu.graph(torch.vgpu.CUDAGraph()):
            optimizer.step()


def test_a_scaler_reads_its_number_back_unless_the_optimizer_is_fused(device):
    parameter = nn.Parameter(torch.ones(3, device=device))
    scaler, plain = torch.amp.GradScaler("vgpu"), torch.optim.SGD([parameter], lr=0.1)
    scaler.scale(parameter.sum()).backward()
    with pytest.raises(torch.AcceleratorError, match="during capture"), torch.vgpu.graph(torch.vgpu.CUDAGraph()):
        scaler.step(plain)
    fused = torch.optim.SGD([parameter], lr=0.1, fused=True)
    graph, scaler = torch.vgpu.CUDAGraph(), torch.amp.GradScaler("vgpu")
    scaler.scale(parameter.sum()).backward()
    with torch.vgpu.graph(graph):
        scaler.step(fused)
        scaler.update()
    before = parameter.sum().item()
    graph.replay()
    assert parameter.sum().item() < before


def test_streams_that_wait_for_the_captured_one_are_captured(device):
    x, side, graph = torch.ones(1_000_000, device=device), torch.vgpu.Stream(), torch.vgpu.CUDAGraph()
    with torch.vgpu.graph(graph):
        y = x * 2
        side.wait_stream(torch.vgpu.current_stream())
        with torch.vgpu.stream(side):
            assert torch.vgpu.is_current_stream_capturing()
            z = y + 1
        torch.vgpu.current_stream().wait_stream(side)
        z = z + y
    assert not torch.vgpu.is_current_stream_capturing()
    graph.replay()
    assert z[0].item() == 5.0
    with pytest.raises(torch.AcceleratorError, match="capturing stream has unjoined work"):
        with torch.vgpu.graph(torch.vgpu.CUDAGraph()):
            y = x * 2
            side.wait_stream(torch.vgpu.current_stream())
            with torch.vgpu.stream(side):
                y + 1


def test_a_captured_stream_waits_for_no_other(device):
    done = torch.vgpu.Event()
    done.record()
    with pytest.raises(torch.AcceleratorError, match="during capture") as ended:
        with torch.vgpu.graph(torch.vgpu.CUDAGraph()):
            done.wait()
    assert "dependency created on uncaptured work in another stream" in str(ended.value.__context__)


def test_an_event_of_a_capture_cannot_be_asked_for(device):
    event, x = torch.vgpu.Event(), torch.ones(3, device=device)
    with torch.vgpu.graph(torch.vgpu.CUDAGraph()):
        x + 1
        event.record()
    with pytest.raises(torch.AcceleratorError, match="an event last recorded in a capturing stream"):
        event.query()


def test_nobody_reads_what_is_captured_before_it_is_replayed(device):
    """From a stream that is not captured; on CUDA that reads what happens to be there."""
    x, side = torch.ones(3, device=device), torch.vgpu.Stream()
    with torch.vgpu.graph(torch.vgpu.CUDAGraph(), capture_error_mode="relaxed"):
        y = x + 1
        with torch.vgpu.stream(side), pytest.raises(RuntimeError, match="nothing is in it before the graph is replayed"):
            y.sum()


def test_random_numbers_move_on_at_each_replay(device):
    graph = torch.vgpu.CUDAGraph()
    torch.manual_seed(7)
    with torch.vgpu.graph(graph):
        x = torch.randn(3, device=device)
    torch.manual_seed(7)
    wanted = [torch.randn(3, device=device).tolist() for _ in range(2)]
    torch.manual_seed(7)
    found = []
    for _ in range(2):
        graph.replay()
        found.append(x.tolist())
    assert found == wanted


def test_a_generator_of_the_programs_is_registered_first(device):
    generator = torch.Generator(device=device)
    with pytest.raises(RuntimeError, match="Attempt to increase offset for a CUDA generator not in capture mode"):
        with pytest.warns(UserWarning, match="empty"), torch.vgpu.graph(torch.vgpu.CUDAGraph()):
            torch.randn(3, device=device, generator=generator)
    graph, before = torch.vgpu.CUDAGraph(), generator.get_state()
    graph.register_generator_state(generator)
    with torch.vgpu.graph(graph):
        x = torch.randn(3, device=device, generator=generator)
    assert torch.equal(generator.get_state(), before)
    graph.replay()
    assert x.tolist() == torch.randn(3, generator=torch.Generator().set_state(before)).tolist()


def test_it_is_captured_on_a_stream_of_its_own_and_once(device):
    graph = torch.vgpu.CUDAGraph()
    with pytest.raises(RuntimeError, match="must be captured on a non-default stream"):
        graph.capture_begin()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    x = torch.ones(3, device=device)
    with torch.vgpu.graph(graph):
        x + 1
    with pytest.raises(RuntimeError, match="already owns a captured graph"), torch.vgpu.stream(torch.vgpu.Stream()):
        graph.capture_begin()
    graph.reset()
    with torch.vgpu.graph(graph):
        y = x + 2
    graph.replay()
    assert y.tolist() == [3.0] * 3


def test_graphs_of_a_program_share_a_stream_and_the_next_program_has_none_of_it(device):
    def captured():
        graph = torch.vgpu.CUDAGraph()
        with torch.vgpu.graph(graph):
            torch.zeros(3, device=device)
            return torch.vgpu.current_stream().stream_id

    number = captured()
    assert captured() == number != torch.vgpu.current_stream().stream_id
    vgpu.timeline().reset()
    assert number not in vgpu.timeline().streams


def test_without_values_a_step_of_any_size_is_captured(device):
    with vgpu.shape_only():
        graph, training = captured_step(device)
        graph.replay()
        with pytest.raises(torch.AcceleratorError), torch.vgpu.graph(torch.vgpu.CUDAGraph()):
            training.step().item()


# -- memory -------------------------------------------------------------------------------------------------


def test_a_graph_keeps_its_memory_while_it_lives(device):
    def reserved():
        torch.vgpu.empty_cache()
        return torch.vgpu.memory_reserved() // 2**20

    x = torch.ones(1_000_000, device=device)
    before, segment = reserved(), 20  # MiB, for blocks of 4 MB
    graph = torch.vgpu.CUDAGraph()
    with torch.vgpu.graph(graph):
        y = x * 2
        z = y + 1
        del y
        z = z * 2  # where y was
    assert reserved() - before == segment
    del z
    assert reserved() - before == segment
    other = torch.vgpu.CUDAGraph()
    with torch.vgpu.graph(other, pool=graph.pool()):
        z = x * 3
    assert z.shape == x.shape
    assert reserved() - before == segment  # in the same memory
    del graph
    assert reserved() - before == segment
    del other, z
    assert reserved() == before


# -- parts of a network -------------------------------------------------------------------------------------


def test_graphed_callables_are_pytorchs_own(device):
    plain = network(device)
    graphed = torch.vgpu.make_graphed_callables(network(device), (torch.randn(32, 8, device=device),))
    for number in range(3):
        gradients = []
        for model in (plain, graphed):
            model.zero_grad(set_to_none=True)
            before = vgpu.timeline().launches
            loss = model(torch.full((32, 8), float(number), device=device)).square().sum()
            loss.backward()
            launches = vgpu.timeline().launches - before
            gradients.append([loss.detach().cpu(), *(parameter.grad.cpu() for parameter in model.parameters())])
        assert all(map(torch.equal, *gradients))
    assert launches == 11  # two graphs, a copy into each, and what is around them: the input, the loss, their gradients


# -- traces -------------------------------------------------------------------------------------------------


def test_a_profile_shows_one_call_and_the_kernels_without_operators(device):
    graph, training = captured_step(device)
    eager = gapless.StepReport.from_trace(gapless.profile(training.step, device=device))
    trace = gapless.profile(graph.replay, device=device)
    report = gapless.StepReport.from_trace(trace)
    assert report.kernels == eager.kernels > 10
    assert (eager.launches, report.launches) == (eager.kernels, 1)
    assert f"{report.kernels:g}, by 1 launch of the host" in str(report)
    assert not [span for span in trace.spans if span.category == "op" and span.name.startswith("aten::")]
    calls = [span for span in trace.spans if span.name == "cudaGraphLaunch"]
    assert len(calls) == 3
    kernels = [span for span in trace.spans if span.args.get("correlation") == calls[0].args["correlation"]
               and span.category == "kernel"]
    assert len(kernels) == report.kernels
    assert {span.args["graph id"] for span in kernels} == {kernels[0].args["graph id"]}
    assert [span.args["graph node id"] for span in kernels] == sorted(span.args["graph node id"] for span in kernels)
    assert report.host_step_ms < eager.host_step_ms / 10
    assert report.device_busy_ms < eager.device_busy_ms  # shorter gaps
    row, = gapless.views.source_of(trace, kernels[0].name)
    assert row.calls == 3 * sum(span.name == kernels[0].name for span in kernels)


def test_the_capture_itself_shows_calls_and_no_kernels(device):
    x = torch.ones(3, device=device)

    def capture():
        with torch.vgpu.graph(torch.vgpu.CUDAGraph()):
            x + 1

    trace = gapless.profile(capture, steps=1, device=device)
    calls = [span.name for span in trace.spans if span.category == "runtime"]
    begin = calls.index("cudaStreamBeginCapture")
    assert calls[begin:begin + 4] == ["cudaStreamBeginCapture", "cudaLaunchKernel", "cudaStreamEndCapture",
                                      "cudaGraphInstantiateWithFlags"]
    assert not [span for span in trace.spans if span.category == "kernel"]
