"""torch.cond and its kin, and FlexAttention, without torch.compile."""

import pytest
import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import gapless

pytestmark = pytest.mark.filterwarnings("ignore")


def x(device):
    return torch.linspace(-1, 2, 12).view(3, 4).to(device).requires_grad_()


PROGRAMS = {
    "cond": lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)),
    "cond, the other": lambda x: torch.cond(x.sum() > 99, lambda x: x.sin(), lambda x: x.cos(), (x,)),
    "cond, nested results": lambda x: torch.cond(x.sum() > 0, lambda x: {"a": (x * 2,)}, lambda x: {"a": (x * 3,)}, (x,))["a"][0],
    "cond of a number": lambda x: torch.cond(x.dim() == 2, lambda x: x * 2, lambda x: x, (x,)),
    "while_loop": lambda x: while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x.sin()), (torch.tensor(0).to(x.device), x))[1],
    "scan": lambda x: scan(lambda total, row: (total + row, total * row), torch.zeros(4).to(x.device), x)[1],
    "associative_scan": lambda x: associative_scan(lambda a, b: a * b, x, 0),
    "map": lambda x: map_over(lambda row, other: row * other, x, torch.arange(4.0).to(x.device)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_control_flow_has_the_cpus_values_and_gradients(name, device):
    def run(device):
        given = x(device)
        out = PROGRAMS[name](given)
        out.square().sum().backward()
        return out.detach().cpu(), given.grad.cpu()

    torch.testing.assert_close(run(device), run("cpu"))


def test_what_the_functions_close_over_has_gradients(device):
    layer, given = nn.Linear(4, 2).to(device), x(device)
    torch.cond(given.sum() > 0, lambda x: layer(x), lambda x: layer(x) * 2, (given,)).sum().backward()
    assert layer.weight.grad is not None and given.grad is not None


def test_cond_reads_its_predicate_forward_and_backward(device, waits):
    given = x(device)
    with waits() as found:
        out = PROGRAMS["cond"](given)
    assert len(found) == 1
    with waits() as found:
        out.sum().backward()
    assert len(found) == 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_control_flow_is_profiled(name, device):
    given = x(device)
    assert gapless.profile(lambda: PROGRAMS[name](given), device=device)


def test_the_host_compiles_as_before(device):
    assert torch.cond(torch.tensor(True), lambda x: x + 1, lambda x: x * 3, (torch.ones(2),)).tolist() == [2, 2]


@pytest.mark.parametrize("causal", ["no", "by score", "by block"])
def test_flex_attention_is_attention(causal, device):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 128, 16).to(device).requires_grad_() for _ in range(3))
    options = {}
    if causal == "by score":
        options["score_mod"] = lambda score, b, h, q, k: torch.where(q >= k, score, -float("inf"))
    if causal == "by block":
        options["block_mask"] = create_block_mask(lambda b, h, q, k: q >= k, None, None, 128, 128, device=device)
    found = flex_attention(q, k, v, **options)
    gradients = torch.autograd.grad(found.square().sum(), (q, k, v))
    expected = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal != "no")
    torch.testing.assert_close(found.cpu(), expected.cpu())
    for one, other in zip(gradients, torch.autograd.grad(expected.square().sum(), (q, k, v))):
        torch.testing.assert_close(one.cpu(), other.cpu())


def test_control_flow_in_a_compiled_function_and_on_the_cpu_afterwards(device):
    """Dynamo refuses tensors of the device, and cond, scan and their kin would make an error of it."""
    torch._dynamo.reset()
    for name, program in PROGRAMS.items():
        if name != "map":  # PyTorch cannot do it a second time on the CPU, without the virtual GPU either
            given = x("cpu").detach()
            torch.testing.assert_close(torch.compile(program)(given.to(device)).cpu(), program(given), msg=name)
    torch._dynamo.reset()


def test_cond_under_vmap(device):
    def choose(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    given = x("cpu").detach()
    found = torch.func.vmap(choose)(given.to(device))
    torch.testing.assert_close(found.cpu(), torch.where(given.sum(1, keepdim=True) > 0, given.sin(), given.cos()))
