"""mode="reduce-overhead": a compiled graph as one launch, from its second call on."""

import pytest
import torch
from torch import nn

from gapless import vgpu
from gapless.measure.profile import profile

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def host_ns(function):
    torch.vgpu.synchronize()
    before = vgpu.timeline().host_ns
    out = function()
    return vgpu.timeline().host_ns - before, out


def network(device):
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU()) for _ in range(6)]).to(device)


def test_later_calls_are_one_launch_with_the_same_values(device):
    module, x = network(device), torch.randn(4, 16).to(device)
    modes = {mode: torch.compile(module, mode=mode) for mode in ("default", "reduce-overhead")}
    times = {mode: [host_ns(lambda: compiled(x))[0] for _ in range(4)] for mode, compiled in modes.items()}
    assert times["default"][1] == times["default"][3]
    assert times["reduce-overhead"][1] > times["default"][1] > 3 * times["reduce-overhead"][2]  # captured, then launched
    x = torch.randn(4, 16).to(device)
    assert torch.equal(modes["reduce-overhead"](x).cpu(), module(x).cpu())


def test_the_backward_pass_too(device):
    module, x = network(device), torch.randn(4, 16).to(device)
    compiled, times, grads = torch.compile(module, mode="reduce-overhead"), [], []
    for _ in range(4):
        module.zero_grad()
        loss = compiled(x).sum()
        times.append(host_ns(loss.backward)[0])
        grads.append([parameter.grad.cpu() for parameter in module.parameters()])
    assert times[1] > 3 * times[2] and times[2] == times[3]
    assert all(torch.equal(*pair) for pair in zip(grads[0], grads[3]))


@pytest.mark.parametrize("what", ["writes", "host"])
def test_what_cannot_be_captured_is_not(what, device):
    function = {"writes": lambda x: x.add_(1).sin().sum(0).cos(), "host": lambda x: (x.sin().sum(0) + 1).cpu() * 2}[what]
    x = torch.ones(8, 8, device=device)
    compiled = {mode: torch.compile(function, mode=mode) for mode in ("default", "reduce-overhead")}
    found = {mode: [host_ns(lambda: each(x))[0] for _ in range(3)] for mode, each in compiled.items()}
    assert found["default"][1:] == found["reduce-overhead"][1:]


def test_each_shape_is_captured_by_itself(device):
    compiled = torch.compile(lambda x: x.sin().sum(0).cos(), mode="reduce-overhead", dynamic=True)
    for length in (4, 5, 4, 5, 4, 5):
        x = torch.randn(length, 3).to(device)
        assert torch.equal(compiled(x).cpu(), x.sin().sum(0).cos().cpu())


def test_a_graph_takes_the_results_of_another_as_they_lie(device):
    first, second = (torch.compile(function, mode="reduce-overhead") for function in (torch.sin, torch.cos))
    x = torch.ones(4, device=device)
    for _ in range(3):
        second(first(x))
    before = vgpu.timeline().kernel_count
    second(first(x))
    assert vgpu.timeline().kernel_count - before == 3  # a copy of x, a sine, a cosine


def test_a_profile_shows_what_was_captured_before_it(device):
    weight, x = torch.randn(16, 16).to(device), torch.randn(4, 16).to(device)
    compiled = torch.compile(lambda x: torch.tanh(x @ weight), mode="reduce-overhead")
    for _ in range(3):
        compiled(x)
    kernels = [event for event in profile(lambda: compiled(x), steps=1, warmup=0, device=device).events if event.get("cat") == "kernel"]
    assert [event["name"] for event in kernels][1:] == ["gemm_float32(mm)", "triton_poi_fused_tanh"]
    assert all(event["args"]["grid"] == [1, 1, 1] for event in kernels[1:])
