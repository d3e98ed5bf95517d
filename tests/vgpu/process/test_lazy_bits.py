"""Kernels of the CPU's that make a lazy conjugate, on the device and while the host is counted."""

import pytest
import torch

from gapless import vgpu


@pytest.mark.parametrize("device", ["cpu", "vgpu:0"])
@pytest.mark.parametrize("function", [torch.linalg.pinv, lambda x: torch.linalg.lstsq(x, x[:, :2].detach() + 1).solution])
def test_it_is_seen(function, device):
    vgpu.enable("a10g")
    values = torch.randn(5, 3, dtype=torch.complex64)

    def result_and_gradient(device):
        x = values.to(device).requires_grad_()
        result = function(x)
        return result.detach().cpu(), torch.autograd.grad(result.abs().sum(), x)[0].cpu()

    wanted = result_and_gradient("cpu")
    with vgpu.host_clock.counting():
        found = result_and_gradient(device)
    torch.testing.assert_close((*found, *result_and_gradient(device)), wanted + wanted)
