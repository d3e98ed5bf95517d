"""The parts of SyncBatchNorm put together by hand are a batch norm. (With two processes: test_ddp.py.)"""

import pytest
import torch
from torch import nn

from gapless import vgpu


@pytest.mark.parametrize("shape", [(6, 3), (6, 3, 5), (6, 3, 4, 4)], ids=str)
@pytest.mark.parametrize("affine", [True, False])
def test_parts_make_a_batch_norm(shape, affine, device):
    torch.manual_seed(0)
    x, grad = torch.randn(shape), torch.randn(shape)
    layer = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}[len(shape)](3, affine=affine)
    if affine:
        nn.init.normal_(layer.weight)
    weight, bias = (layer.weight.detach().to(device), layer.bias.detach().to(device)) if affine else (None, None)
    mean_so_far, var_so_far = torch.zeros(3, device=device), torch.ones(3, device=device)
    x_there, grad_there = x.to(device), grad.to(device)
    halves = [torch.batch_norm_stats(half, 1e-5) for half in (x_there[:2], x_there[2:])]
    counts = torch.tensor([half.numel() / 3 for half in (x[:2], x[2:])]).to(device)
    mean, invstd = torch.batch_norm_gather_stats_with_counts(
        x_there, torch.stack([half[0] for half in halves]), torch.stack([half[1] for half in halves]), mean_so_far, var_so_far,
        0.1, 1e-5, counts)
    out = torch.batch_norm_elemt(x_there, weight, bias, mean, invstd, 1e-5)
    sum_dy, sum_dy_xmu, grad_weight, grad_bias = torch.batch_norm_backward_reduce(grad_there, x_there, mean, invstd, weight, True,
                                                                                  affine, affine)
    grad_x = torch.batch_norm_backward_elemt(grad_there, x_there, mean, invstd, weight, sum_dy, sum_dy_xmu, counts.int())

    x.requires_grad_()
    expected = layer(x)
    expected.backward(grad)
    torch.testing.assert_close([out.cpu(), grad_x.cpu(), mean_so_far.cpu(), var_so_far.cpu()],
                               [expected.detach(), x.grad, layer.running_mean, layer.running_var])
    if affine:
        torch.testing.assert_close([grad_weight.cpu(), grad_bias.cpu()], [layer.weight.grad, layer.bias.grad])


def test_statistics_of_half_precision_are_single(device):
    mean, invstd = torch.batch_norm_stats(torch.ones(4, 2, device=device, dtype=torch.float16), 1e-5)
    assert mean.dtype == invstd.dtype == torch.float32


def test_each_is_one_kernel(device):
    x = torch.ones(8, 3, device=device)
    before = vgpu.timeline().kernel_count
    torch.batch_norm_stats(x, 1e-5)
    torch.batch_norm_update_stats(x, None, None, 0.1)
    assert vgpu.timeline().kernel_count == before + 2


def test_without_values(device):
    with vgpu.shape_only():
        mean, invstd = torch.batch_norm_stats(torch.ones(8, 3, 4, device=device), 1e-5)
        assert mean.shape == invstd.shape == (3,)
