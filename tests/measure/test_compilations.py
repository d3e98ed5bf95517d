"""Compilations are counted, one for each shape and dtype that is compiled for."""

import torch

from gapless import vgpu
from gapless.measure.compilations import compilations, uncompiled


def test_counts_graphs_and_not_calls():
    device = vgpu.enable("a10g")
    double = torch.compile(lambda x: 2 * x + 1, dynamic=False)
    before = compilations(device)
    for size in (3, 5, 5, 3, 7):
        double(torch.ones(size, device=device))
    assert compilations(device) == before + 3
    assert compilations(torch.device("cpu")) is None


def test_kernels_of_no_graph_are_told_from_those_of_a_graph():
    device = vgpu.enable("a10g")
    double, x = torch.compile(lambda x: 2 * x @ x + 1), torch.ones(4, 4, device=device)
    double(x)
    kernels, products = uncompiled(device)
    double(x)
    assert uncompiled(device) == (kernels, products)
    torch.sin(double(x)) @ x
    assert uncompiled(device) == (kernels + 2, products + 1)
    assert uncompiled(torch.device("cpu")) is None
