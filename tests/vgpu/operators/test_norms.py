"""The parts of SyncBatchNorm put together by hand are a batch norm (with two processes: test_ddp.py). RMSNorm is one operator."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from gapless import vgpu
from gapless.evidence.views import kernel_view
from gapless.measure.profile import profile


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


# -- RMSNorm ------------------------------------------------------------------------------------------

WIDE = 128


def norm_and_gradients(device, dtype):
    torch.manual_seed(0)
    x = torch.randn(4, 8, WIDE, dtype=dtype).to(device).requires_grad_()
    weight = torch.randn(WIDE, dtype=dtype).to(device).requires_grad_()
    y = F.rms_norm(x, (WIDE,), weight, 1e-5)
    y.float().square().mean().backward()
    return y, x.grad, weight.grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_values_and_gradients_are_those_of_the_parts(device, dtype):
    for here, there in zip(norm_and_gradients(torch.device("cpu"), dtype), norm_and_gradients(device, dtype)):
        torch.testing.assert_close(there.cpu(), here)


def test_gradients_against_finite_differences(device):
    x = torch.randn(3, 6, dtype=torch.float64, device=device, requires_grad=True)
    weight = torch.randn(6, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, weight: F.rms_norm(x, (6,), weight), (x, weight))
    assert torch.autograd.gradcheck(lambda x: F.rms_norm(x, (6,)), (x,))


@pytest.mark.parametrize("mode", ["exact", "shape only"])
def test_it_is_one_kernel_forward_and_two_backward(device, mode):
    with vgpu.shape_only() if mode == "shape only" else vgpu.exact():
        norm, x = torch.nn.RMSNorm(WIDE).to(device), torch.ones(1000, WIDE, device=device, requires_grad=True)
        grad = torch.ones(1000, WIDE, device=device)
        trace = profile(lambda: torch.autograd.grad(norm(x), (x, norm.weight), grad), steps=1, device=device)
    assert sorted(row.name for row in kernel_view(trace)) == [
        "GammaBetaBackwardCUDAKernel", "rms_norm_backward_kernel", "rms_norm_forward_kernel"]


def test_what_is_kept_for_the_backward_pass_is_the_input_and_a_number_a_row(device):
    norm, x = torch.nn.RMSNorm(1024).to(device), torch.ones(512, 1024, device=device, requires_grad=True)
    before = torch.vgpu.memory_stats()["requested_bytes.all.current"]
    y = norm(x)
    assert torch.vgpu.memory_stats()["requested_bytes.all.current"] - before == 4 * (512 * 1024 + 512)
    assert type(y.grad_fn).__name__ == "FusedRmsNormBackward0"


def test_a_weight_of_another_dtype_takes_it_apart(device):
    x, weight = torch.ones(10, WIDE, device=device, dtype=torch.bfloat16), torch.ones(WIDE, device=device)
    with pytest.warns(UserWarning, match="Mismatch dtype"):
        trace = profile(lambda: F.rms_norm(x, (WIDE,), weight), steps=1, device=device)
    assert len(kernel_view(trace)) > 3


def test_without_gradients_too(device):
    norm, x = torch.nn.RMSNorm(WIDE).to(device), torch.randn(4, WIDE)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            torch.testing.assert_close(norm(x.to(device)).cpu(), F.rms_norm(x, (WIDE,)))
