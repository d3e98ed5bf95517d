"""Races between streams: programs that have one, with both lines, and idioms that have none."""

import gc
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from gapless import vgpu
from gapless.vgpu.hardware.memory.memory import MOST_FREED
from gapless.vgpu.ordering.race_detector import MOST_USES


@pytest.fixture(params=["from the start", "from the second stream on"])
def kept(request, device):
    """A context in which a race is an error: with all lines kept, or as any program runs."""
    if request.param == "from the start":
        return lambda: vgpu.races("raise")

    class Warnings(warnings.catch_warnings):
        def __enter__(self):
            super().__enter__()
            warnings.simplefilter("error", vgpu.RaceWarning)

    return Warnings


def current():
    return torch.vgpu.current_stream()


# -- programs without a race ------------------------------------------------------------------------


def wait_both_ways(device):
    x, side = torch.randn(64, 64, device=device), torch.vgpu.Stream()
    for _ in range(3):
        x = x * 0.5
        side.wait_stream(current())
        with side:
            y = x @ x
        current().wait_stream(side)
        x = x + y


def events_instead(device):
    x, side, ready, done = torch.randn(64, device=device), torch.vgpu.Stream(), torch.vgpu.Event(), torch.vgpu.Event()
    for _ in range(3):
        x.mul_(2)
        ready.record()
        with torch.vgpu.stream(side):
            ready.wait()
            x.add_(1)
            done.record()
        current().wait_event(done)
    x.tolist()


class Prefetcher:
    """NVIDIA's: the next batch comes while this one is worked on."""

    def __init__(self, batches, device, keeps):
        self.batches, self.device, self.keeps, self.stream = iter(batches), device, keeps, torch.vgpu.Stream()
        self.preload()

    def preload(self):
        self.next = next(self.batches, None)
        if self.next is None:
            return
        if not self.keeps:
            self.stream.wait_stream(current())
        with torch.vgpu.stream(self.stream):
            self.next = self.next.to(self.device, non_blocking=True).float().div_(255)

    def __iter__(self):
        while self.next is not None:
            current().wait_stream(self.stream)
            batch = self.next
            if self.keeps:
                batch.record_stream(current())
            self.preload()
            yield batch


def prefetcher_that_records(device, keeps=True):
    network = nn.Linear(16, 4).to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    batches = [torch.full((8, 16), i, dtype=torch.uint8).pin_memory() for i in range(5)]
    for x in Prefetcher(batches, device, keeps):
        optimizer.zero_grad()
        network(x).square().mean().backward()
        optimizer.step()


def prefetcher_that_waits(device):
    prefetcher_that_records(device, keeps=False)


def loader(device):
    data = torch.utils.data.TensorDataset(torch.randn(12, 4), torch.randint(2, (12,)))
    network, side = nn.Linear(4, 2).to(device), torch.vgpu.Stream()
    for x, y in torch.utils.data.DataLoader(data, batch_size=3, pin_memory=True):
        with side:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        current().wait_stream(side)
        x.record_stream(current())
        y.record_stream(current())
        F.cross_entropy(network(x), y).backward()


def one_stream_and_pinned_copies(device):
    network, losses, event = nn.Linear(4, 1).to(device), [], torch.vgpu.Event()
    host = torch.empty(3, pin_memory=True)
    for _ in range(3):
        x = torch.randn(8, 4).pin_memory().to(device, non_blocking=True)
        losses.append(network(x).mean().detach())
    host.copy_(torch.stack(losses), non_blocking=True)
    event.record()
    event.synchronize()
    host.zero_()


def two_buffers(device):
    """A batch is copied from one pinned buffer while the other is filled."""
    buffers = [torch.empty(1000).pin_memory() for _ in range(2)]
    events, side = [torch.vgpu.Event(), torch.vgpu.Event()], torch.vgpu.Stream()
    for i in range(6):
        events[i % 2].synchronize()
        buffers[i % 2].fill_(i)
        with side:
            x = buffers[i % 2].to(device, non_blocking=True)
            events[i % 2].record()
        current().wait_stream(side)
        x.record_stream(current())
        assert (x + 1).max().item() == i + 1


def metrics_on_the_side(device):
    """Losses go to the host on a stream of their own."""
    side, waiting = torch.vgpu.Stream(), []
    network = nn.Linear(4, 1).to(device)
    for _ in range(5):
        loss = network(torch.randn(8, 4, device=device)).mean()
        loss.backward()
        side.wait_stream(current())
        with side, torch.no_grad():
            host = loss.detach().to("cpu", non_blocking=True)
            waiting.append((host, side.record_event()))
        loss.record_stream(side)
        while waiting and waiting[0][1].query():
            waiting.pop(0)[0].item()
    side.synchronize()
    assert all(host.isfinite() for host, _ in waiting)


def branches(device):
    """Two branches of a network on two streams, backward on the caller's: PyTorch runs it on theirs, and waits."""
    first, second = nn.Linear(16, 16).to(device), nn.Linear(16, 16).to(device)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()])
    streams = torch.vgpu.Stream(), torch.vgpu.Stream()
    for _ in range(3):
        x, found = torch.randn(4, 16, device=device), []
        for layer, stream in zip((first, second), streams):
            stream.wait_stream(current())
            with stream:
                found.append(layer(x).relu())
            x.record_stream(stream)
        for y, stream in zip(found, streams):
            current().wait_stream(stream)
            y.record_stream(current())
        (found[0] * found[1]).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def backward_without_a_wait(device):
    """"Safe" in PyTorch's notes: the backward pass of work on a stream, called from another."""
    layer, side = nn.Linear(16, 16).to(device), torch.vgpu.Stream()
    side.wait_stream(current())
    for _ in range(3):
        with side:
            loss = layer(torch.randn(4, 16, device=device)).sum()
        loss.backward()  # the engine waits
        side.wait_stream(current())
    layer.weight.grad.sum().item()


def all_on_a_side_stream(device):
    """The warm-up before a graph is captured."""
    layer, side = nn.Linear(16, 16).to(device), torch.vgpu.Stream()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    x = torch.randn(4, 16, device=device)
    side.wait_stream(current())
    with side:
        for _ in range(3):
            optimizer.zero_grad()
            layer(x).sum().backward()
            optimizer.step()
    current().wait_stream(side)
    layer(x).sum().item()


def halves(device):
    """Two streams write two halves of one tensor."""
    out, x, side = torch.zeros(100, 10, device=device), torch.ones(50, 10, device=device), torch.vgpu.Stream()
    side.wait_stream(current())
    for dim in (0, 1):
        first, second = out.chunk(2, dim)
        first.copy_(x if dim == 0 else x.view(100, 5))
        with side:
            second.add_(1)
        current().wait_stream(side)
        side.wait_stream(current())


def every_other_element(device):
    out, side = torch.zeros(100, device=device), torch.vgpu.Stream()
    side.wait_stream(current())
    out[::2].add_(1)
    with side:
        out[1::2].add_(2)
    current().wait_stream(side)
    assert out.sum().item() == 150


def many_readers(device):
    x, streams = torch.ones(100, device=device), [torch.vgpu.Stream() for _ in range(4)]
    ready = current().record_event()
    for stream in streams:
        stream.wait_event(ready)
        with stream:
            x.sum()
    for stream in streams:
        current().wait_stream(stream)
    x.zero_()


def host_waits(device):
    """Synchronising from the host orders everything."""
    side, x = torch.vgpu.Stream(), torch.ones(100, device=device)
    for wait in (torch.vgpu.synchronize, current().synchronize, lambda: x.sum().item(), lambda: x.cpu(),
                 lambda: current().record_event().synchronize(), lambda: [None for _ in iter(current().query, True)]):
        x.add_(1)
        wait()
        with side:
            x.mul_(2)
        side.synchronize()


def a_third_stream_by_way_of_a_second(device):
    x, (first, second) = torch.ones(100, device=device), (torch.vgpu.Stream(), torch.vgpu.Stream())
    first.wait_stream(current())
    second.wait_stream(first)
    with second:
        x.sum()
    x.record_stream(second)


def an_empty_tensor_for_another_stream(device):
    """Made in one place and filled in another, as offloading does."""
    buffers, side = [torch.empty(100, device=device) for _ in range(3)], torch.vgpu.Stream()
    host = torch.ones(100).pin_memory()
    with side:
        for buffer in buffers:
            buffer.copy_(host, non_blocking=True)
            torch.zeros_like(buffers[0])
    current().wait_stream(side)
    assert sum(buffer.sum() for buffer in buffers).item() == 300


def offloading(device):
    """Activations go to pinned memory and come back for the backward pass."""
    side, layers = torch.vgpu.Stream(), nn.Sequential(*(nn.Linear(32, 32) for _ in range(3))).to(device)

    def pack(x):
        side.wait_stream(current())
        with side:
            host = x.detach().to("cpu", non_blocking=True)
        x.record_stream(side)
        return host, side.record_event()

    def unpack(packed):
        host, _ = packed
        with side:
            x = host.to(device, non_blocking=True)
        current().wait_stream(side)
        x.record_stream(current())
        return x

    for _ in range(2):
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            layers(torch.randn(4, 32, device=device)).sum().backward()
        layers.zero_grad()


def attention_and_lstm(device):
    lstm, side = nn.LSTM(8, 8).to(device), torch.vgpu.Stream()
    x = torch.randn(5, 2, 8, device=device, requires_grad=True)
    for _ in range(2):
        side.wait_stream(current())
        with side:
            y, _ = lstm(x)
            q = y.view(1, 2, 5, 8)
            loss = F.scaled_dot_product_attention(q, q, q).sum()
        current().wait_stream(side)
        loss.backward()


def checkpointing(device):
    layer, side = nn.Linear(8, 8).to(device), torch.vgpu.Stream()
    for _ in range(2):
        side.wait_stream(current())
        with side:
            x = torch.randn(4, 8, device=device, requires_grad=True)
            torch.utils.checkpoint.checkpoint(lambda t: layer(t).relu(), x, use_reentrant=False).sum().backward()
        current().wait_stream(side)


def hooks_on_a_stream_of_their_own(device):
    """Gradients are worked on while the backward pass goes on, as data-parallel training does."""
    layers, side = nn.Sequential(*(nn.Linear(16, 16) for _ in range(3))).to(device), torch.vgpu.Stream()

    def reduce(parameter):
        side.wait_stream(current())
        with side:
            parameter.grad.div_(2)

    for parameter in layers.parameters():
        parameter.register_post_accumulate_grad_hook(reduce)
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
    for _ in range(3):
        layers(torch.randn(4, 16, device=device)).sum().backward()
        current().wait_stream(side)
        optimizer.step()
        optimizer.zero_grad()


IDIOMS = [wait_both_ways, events_instead, prefetcher_that_records, prefetcher_that_waits, loader, one_stream_and_pinned_copies,
          two_buffers, metrics_on_the_side, branches, backward_without_a_wait, all_on_a_side_stream, halves,
          every_other_element, many_readers, host_waits, a_third_stream_by_way_of_a_second,
          an_empty_tensor_for_another_stream, offloading, attention_and_lstm, checkpointing, hooks_on_a_stream_of_their_own]


@pytest.mark.slow
@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda idiom: idiom.__name__)
def test_a_correct_program_is_never_reported(idiom, device, kept):
    with kept():
        idiom(device)
        idiom(device)
        gc.collect()
        vgpu.timeline().reset()
        idiom(device)
        torch.vgpu.synchronize()


@pytest.mark.parametrize("idiom", [wait_both_ways, events_instead, prefetcher_that_records, all_on_a_side_stream, branches,
                                   metrics_on_the_side], ids=lambda idiom: idiom.__name__)
def test_the_same_without_a_wait_is_reported(idiom, device, monkeypatch):
    monkeypatch.setattr(vgpu.Timeline, "stream_wait_event", lambda *arguments: None)
    with vgpu.races([]) as found:
        idiom(device)
    assert found


# -- programs with a race ---------------------------------------------------------------------------


def line_of(function, offset):
    return f"test_race_detector.py({function.__code__.co_firstlineno + offset}): {function.__name__}"


def reads_too_early(x, side):
    y = x * 2
    y.record_stream(side)
    with side:
        y.sum()


def writes_too_early(x, side):
    x.sum()
    with side:
        x.add_(1)


def writes_over(x, side):
    x.zero_()
    with side:
        x.fill_(1)


def does_not_wait_back(x, side):
    side.wait_stream(current())
    with side:
        y = x * 2
    y.sum()


def waits_too_early(x, side):
    side.wait_stream(current())
    y = x * 2
    with side:
        y.sum()


def takes_it_to_the_host(x, side):
    with side:
        side.wait_stream(torch.vgpu.default_stream())
        y = x * 2
    y.sum().item()


@pytest.mark.parametrize("program, first, second, text", [
    (reads_too_early, ("aten::mul", 1), ("aten::sum", 4), "written by aten::mul on stream 7"),
    (writes_too_early, ("aten::sum", 1), ("aten::add_", 3), "read by aten::sum on stream 7"),
    (writes_over, ("aten::zero_", 1), ("aten::fill_", 3), "and written by aten::fill_ on stream"),
    (does_not_wait_back, ("aten::mul", 3), ("aten::sum", 4), "stream.wait_stream(other)"),
    (waits_too_early, ("aten::mul", 2), ("aten::sum", 4), "nothing orders the two streams"),
    (takes_it_to_the_host, ("aten::mul", 3), ("aten::sum", 4), "test_race_detector.py, line"),
], ids=lambda value: getattr(value, "__name__", None))
@pytest.mark.parametrize("mode", [vgpu.exact, vgpu.shape_only], ids=["exact", "shape only"])
def test_a_race_is_told_with_both_lines(program, first, second, text, mode, device):
    with mode():
        x, side = torch.ones(10, 10, device=device), torch.vgpu.Stream()
        torch.vgpu.synchronize()
        with vgpu.races("raise"), pytest.raises(vgpu.RaceError) as raised:
            program(x, side)
    error = raised.value
    assert (error.first.op, error.second.op) == (first[0], second[0])
    assert error.first.line.endswith(line_of(program, first[1]))
    assert error.second.line.endswith(line_of(program, second[1]))
    assert text in str(error)


def test_without_a_context_it_is_a_warning_at_the_second_line(device):
    x, side = torch.ones(10, device=device), torch.vgpu.Stream()
    side.synchronize()
    side.wait_stream(current())
    for _ in range(3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            reads_too_early(x, side)
        told = [(w.category, w.filename, w.lineno) for w in caught]
        assert told in ([(vgpu.RaceWarning, __file__, reads_too_early.__code__.co_firstlineno + 4)], [])
        assert bool(told) == (_ == 0)  # once for each pair of lines
    vgpu.timeline().reset()
    with pytest.warns(vgpu.RaceWarning):
        reads_too_early(x, side)


def test_what_was_made_before_the_second_stream_has_no_line(device):
    vgpu.enable("t4")  # a card without streams that other tests hold
    x, side = torch.ones(10, device=device), torch.vgpu.Stream()
    with side, pytest.warns(vgpu.RaceWarning, match=r"written by an operator on stream 7 \(at a line that was not kept"):
        x.sum()


def test_an_operator_runs_to_its_end_before_the_error(device):
    x, side = torch.ones(10, device=device), torch.vgpu.Stream()
    with pytest.raises(vgpu.RaceError), vgpu.races("raise"), side:
        x.add_(1)
    assert not vgpu.timeline().in_operator
    assert current() == torch.vgpu.default_stream()
    torch.vgpu.synchronize()
    assert x.tolist() == [2] * 10


def test_races_nest_and_refuse_what_they_do_not_know(device):
    outer, inner = [], []
    x, side = torch.ones(10, device=device), torch.vgpu.Stream()
    torch.vgpu.synchronize()
    with vgpu.races(outer):
        with vgpu.races(inner):
            reads_too_early(x, side)
        assert not outer and len(inner) == 1
        reads_too_early(x, side)
        assert len(outer) == 1
    with pytest.raises(ValueError, match="not 'ignore'"), vgpu.races("ignore"):
        pass


def test_a_node_of_an_autograd_function_runs_on_the_stream_of_its_forward(device):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            streams.append(current())
            return grad * 2

    streams, side = [], torch.vgpu.Stream()
    x = torch.ones(3, device=device, requires_grad=True)
    side.wait_stream(current())
    with side:
        loss = Double.apply(x).sum()
    loss.backward()
    assert current() == torch.vgpu.default_stream()
    assert x.grad.tolist() == [2, 2, 2]
    assert streams == [side]


def freed(side, x, keep):
    with side:
        y = x * 2
    current().wait_stream(side)
    y.sum()
    if keep:
        y.record_stream(current())
    del y
    with side:
        return x * 3


def test_memory_freed_while_another_stream_uses_it(device):
    x, side = torch.ones(1000, device=device), torch.vgpu.Stream()
    side.wait_stream(current())
    with vgpu.races([]) as found:
        freed(side, x, keep=True)
        assert not found
        freed(side, x, keep=False)
    error, = found
    assert "record_stream" in str(error)
    assert error.first.line.endswith(line_of(freed, 4)) and error.second.line.endswith(line_of(freed, 9))


def test_a_larger_tensor_does_not_get_the_freed_memory(device):
    x, side = torch.ones(1000, device=device), torch.vgpu.Stream()
    side.wait_stream(current())
    with vgpu.races("raise"):
        with side:
            y = x * 2
        current().wait_stream(side)
        y.sum()
        del y
        with side:
            torch.zeros(2000, device=device)


def test_what_is_remembered_is_bounded(device):
    x, side = torch.zeros(1000, device=device), torch.vgpu.Stream()
    side.wait_stream(current())
    with vgpu.races("raise"):
        for row in x:
            row.add_(1)
        assert len(x.allocation.uses) <= MOST_USES
        many = [torch.zeros(10, device=device) for _ in range(3 * MOST_FREED)]
        side.wait_stream(current())
        with side:
            for y in many:
                y.sum()
        del many, y
    assert len(vgpu.memory().freed) == MOST_FREED


def test_with_one_stream_nobody_keeps_anything(device):
    vgpu.enable("t4")  # a card without streams that other tests hold
    x = torch.ones(10, device=device)
    (x * 2).add_(1)
    assert x.allocation.uses is None
    assert not vgpu.timeline().concurrent


def test_a_card_used_before_orders_all_that_was_made_on_it(device):
    x = torch.ones(10, device=device)
    for _ in range(5):
        x.add_(1)
    vgpu.enable("v100")
    with vgpu.races("raise"), torch.vgpu.Stream():
        x.sum()
