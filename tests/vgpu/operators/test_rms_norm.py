import pytest
import torch
import torch.nn.functional as F

from gapless import vgpu
from gapless.evidence.views import kernel_view
from gapless.measure.profile import profile

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
