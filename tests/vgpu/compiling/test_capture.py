"""What a capture leaves behind, and what a replay computes from."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gapless.vgpu.compiling.graphs import abandon
from gapless.vgpu.process.state import state


class Network(nn.Module):
    """One of each that is done by a way of its own: a convolution by plans, statistics that are written though no schema says
    so, random numbers, attention and recurrence, which are caught where autograd begins, an embedding with indices."""

    def __init__(self):
        super().__init__()
        self.convolution, self.statistics = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.dropout, self.norm, self.recurrent = nn.Dropout(0.1), nn.LayerNorm(8), nn.LSTM(8, 8, batch_first=True)
        self.words, self.out = nn.Embedding(10, 8), nn.Linear(8, 4)

    def forward(self, image, word):
        x = F.relu(self.statistics(self.convolution(image))).flatten(2).transpose(1, 2)
        x = self.norm(self.dropout(x))
        heads = x[:, None]
        x = x + F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)[:, 0]
        x, _ = self.recurrent(x + self.words(word)[:, None])
        return self.out(x.mean(1))


def losses(device, captured: bool, amp: bool) -> list:
    torch.manual_seed(0)
    model = Network().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True, capturable=True)
    scaler = torch.amp.GradScaler("vgpu", enabled=amp)
    static = [torch.zeros(4, 3, 4, 4, device=device), *(torch.zeros(4, dtype=torch.long, device=device) for _ in range(2))]
    generator = torch.Generator().manual_seed(3)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("vgpu", dtype=torch.float16, enabled=amp):
            loss = F.cross_entropy(model(*static[:2]), static[2])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    side = torch.vgpu.Stream()
    side.wait_stream(torch.vgpu.current_stream())
    with torch.vgpu.stream(side):
        step()
    torch.vgpu.current_stream().wait_stream(side)
    if captured:
        graph = torch.vgpu.CUDAGraph()
        with torch.vgpu.graph(graph):
            loss = step()
    found = []
    for _ in range(3):
        batch = (torch.randn(4, 3, 4, 4, generator=generator), torch.randint(10, (4,), generator=generator),
                 torch.randint(4, (4,), generator=generator))
        for target, source in zip(static, batch):
            target.copy_(source)
        if captured:
            graph.replay()
        else:
            loss = step()
        found.append(loss.item())
    return found + [each.float().sum().item() for each in (*model.parameters(), *model.buffers())]


@pytest.mark.parametrize("amp", [False, True])
def test_a_replay_computes_what_the_step_computes(device, amp):
    assert losses(device, True, amp) == losses(device, False, amp)


def test_a_capture_leaves_values_as_they_were_and_results_without(device):
    torch.manual_seed(0)
    x, numbers = torch.ones(3, device=device), torch.arange(3, device=device)
    before = torch.get_rng_state()
    with torch.vgpu.graph(torch.vgpu.CUDAGraph()):
        x.add_(1)
        x[1:].zero_()
        made, whole = torch.rand(3, device=device) + x, numbers * 2
    assert x.tolist() == [1.0] * 3
    assert made.isnan().all().item()
    assert whole.tolist() == [torch.iinfo(torch.int64).max] * 3
    assert torch.equal(torch.get_rng_state(), before)


def test_what_is_released_is_computed_all_the_same(device):
    x = torch.ones(3, device=device)
    graph = torch.vgpu.CUDAGraph()
    with torch.vgpu.graph(graph):
        y = ((x + 1) * 2).sum()  # the parts of it are nobody's
    x.fill_(4.0)
    graph.replay()
    assert y.item() == 30.0


def test_views_of_static_memory_follow(device):
    x = torch.zeros(2, 3, device=device)
    graph = torch.vgpu.CUDAGraph()
    with torch.vgpu.graph(graph):
        column = (x + 1).t()[1]
    x.copy_(torch.arange(6.0, device=device).reshape(2, 3))
    graph.replay()
    assert column.tolist() == [2.0, 5.0]


def test_a_number_of_the_host_is_a_constant_of_the_graph(device):
    """CUDA reads it as the kernel is launched (ATen, native/cuda/FusedAdamKernel.cu: `lr.item<double>()`)."""
    weight, factor = torch.nn.Parameter(torch.ones(3, device=device)), torch.tensor(2.0)
    weight.grad = torch.ones_like(weight)
    optimizer = torch.optim.Adam([weight], lr=torch.tensor(0.1), fused=True, capturable=True)
    optimizer.step()
    graph, x = torch.vgpu.CUDAGraph(), torch.ones(3, device=device)
    with torch.vgpu.graph(graph):
        optimizer.step()
        y = x * factor
    optimizer.param_groups[0]["lr"].fill_(0.0)
    factor.fill_(5.0)
    before = weight.tolist()
    graph.replay()
    assert y.tolist() == [2.0] * 3
    assert weight.tolist() != before


def test_a_result_whose_shape_is_changed_in_place_is_replayed(device):
    """A vector times a matrix is `mm` and then `squeeze_` (ATen, native/LinearAlgebra.cpp, _matmul_impl)."""
    x, weight = torch.ones(3, device=device), torch.ones(3, 2, device=device)
    graph = torch.vgpu.CUDAGraph()
    with torch.vgpu.graph(graph):
        y = x @ weight
        z = (x + 1).unsqueeze_(0)
    x.fill_(2.0)
    graph.replay()
    assert y.tolist() == [6.0] * 2 and z.tolist() == [[3.0] * 3]


def test_sparse_tensors_are_refused(device):
    x = torch.eye(3, device=device).to_sparse()
    with pytest.raises(NotImplementedError, match="sparse and nested tensors"), pytest.warns(UserWarning, match="empty"):
        with torch.vgpu.graph(torch.vgpu.CUDAGraph()):
            x * 2


def test_an_abandoned_capture_leaves_nothing(device):
    x = torch.ones(3, device=device)
    with torch.vgpu.stream(torch.vgpu.Stream()):
        torch.vgpu.CUDAGraph().capture_begin()
        x.add_(1)
        abandon()
    assert state.tape is None
    assert state.memory.private is None
    assert x.sum().item() == 3.0


def test_a_replay_is_seen_by_no_mode_of_the_programs(device):
    from torch.utils.flop_counter import FlopCounterMode

    x = torch.ones(3, 3, device=device)
    graph = torch.vgpu.CUDAGraph()
    with torch.vgpu.graph(graph):
        x @ x
    with FlopCounterMode(display=False) as counter:
        graph.replay()
    assert counter.get_total_flops() == 0


@pytest.mark.parametrize("of", [lambda x, at: F.cross_entropy(x, at), lambda x, at: F.embedding(at, x), lambda x, at: x[at],
                                lambda x, at: x.gather(1, at[:, None]), lambda x, at: torch.zeros_like(x).index_add_(0, at, x)])
def test_what_labels_hold_at_the_capture_does_not_matter(of, device):
    x, at = torch.rand(4, 4, device=device), torch.full((4,), 77, device=device)  # as memory that nobody has written yet
    backend = torch.get_device_module(device)
    graph = backend.CUDAGraph()
    with backend.graph(graph):
        found = of(x, at)
    at.copy_(torch.tensor([3, 0, 1, 2]))
    graph.replay()
    assert torch.equal(found, of(x, at))
    at.fill_(77)
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        graph.replay()
