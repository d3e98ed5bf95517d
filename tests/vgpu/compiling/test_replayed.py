"""A function run as graphs once it is warm: values, gradients, launches, kinds of calls."""

import pytest
import torch
from torch.nn import functional as F

from gapless import vgpu
from gapless.vgpu.compiling.replayed import Replayed


def layer(x, weight, bias, running, scale):
    running.mul_(0.9).add_(0.1 * x.detach().mean(0))
    return scale * F.gelu(F.linear(x, weight, bias))


def parameters(device):
    generator = torch.Generator().manual_seed(0)
    weight, bias = torch.randn(5, 4, generator=generator), torch.randn(5, generator=generator)
    return [weight.to(device).requires_grad_(), bias.to(device).requires_grad_(), torch.zeros(4, device=device)]


def test_values_gradients_and_what_it_writes_are_the_functions(device):
    ours, theirs = parameters(device), parameters(device)
    replayed = Replayed(layer, static=frozenset({1, 2, 3}))
    for number in range(4):
        x, y = (torch.full((3, 4), float(number), device=device).requires_grad_() for _ in range(2))
        found, wanted = replayed(x, *ours, 2.0), layer(y, *theirs, 2.0)
        assert torch.equal(found.detach().cpu(), wanted.detach().cpu())
        found.sum().backward()
        wanted.sum().backward()
        for mine, its in zip((x, *ours[:2]), (y, *theirs[:2])):
            assert torch.equal(mine.grad.cpu(), its.grad.cpu())
            mine.grad = its.grad = None
        assert torch.equal(ours[2].cpu(), theirs[2].cpu())


def test_it_is_one_launch_once_it_is_warm(device):
    replayed, (weight, bias, running) = Replayed(layer, static=frozenset({1, 2, 3})), parameters(device)
    x = torch.ones(3, 4, device=device)
    launches = []
    for _ in range(4):
        before = vgpu.timeline().launches
        with torch.no_grad():
            replayed(x, weight, bias, running, 2.0)
        launches.append(vgpu.timeline().launches - before)
    assert launches[0] > 5
    assert launches[2] == launches[3] == 2  # a copy of x, and the graph


def test_another_shape_or_another_number_is_another_graph(device):
    replayed = Replayed(lambda x, factor: x * factor)
    for factor in (2.0, 3.0):
        for rows in (2, 3):
            for _ in range(3):
                assert replayed(torch.ones(rows, device=device), factor).tolist() == [factor] * rows


def test_a_wait_inside_is_the_captures_error(device):
    replayed = Replayed(lambda x: x * x.sum().item())
    x = torch.ones(3, device=device)
    assert replayed(x).tolist() == [3.0] * 3
    with pytest.raises(torch.AcceleratorError, match="during capture"):
        replayed(x)
