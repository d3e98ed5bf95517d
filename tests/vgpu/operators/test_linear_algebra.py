"""Linear algebra where CUDA's way is not the CPU's."""

import pytest
import torch

from gapless import vgpu


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 5, 3)], ids=str)
def test_least_squares(device, shape):
    a = torch.arange(float(torch.Size(shape).numel())).sin().reshape(shape)
    b = torch.arange(float(torch.Size(shape[:-1]).numel())).cos().reshape(*shape[:-1], 1)
    expected, found = torch.linalg.lstsq(a, b, driver="gels"), torch.linalg.lstsq(a.to(device), b.to(device))
    torch.testing.assert_close(found.solution.cpu(), expected.solution)
    assert found.rank.numel() == found.singular_values.numel() == 0, "the one driver of CUDA finds none"
    with pytest.raises(RuntimeError, match="`driver` other than `gels` is not supported on CUDA"):
        torch.linalg.lstsq(a.to(device), b.to(device), driver="gelsd")


@pytest.mark.parametrize("driver", [None, "gesvd", "gesvdj", "gesvda"])
def test_singular_values_by_each_driver(driver, device):
    a = torch.arange(12.0).sin().reshape(4, 3).requires_grad_()
    there = a.detach().to(device).requires_grad_()
    for x, options in ((a, {}), (there, {"driver": driver})):
        u, s, vh = torch.linalg.svd(x, full_matrices=False, **options)
        torch.testing.assert_close(u @ torch.diag(s) @ vh, x)
        torch.linalg.svdvals(x, **options).square().sum().backward()
    torch.testing.assert_close(there.grad.cpu(), a.grad)
    with pytest.raises(RuntimeError, match="unknown svd driver lapack"):
        torch.linalg.svd(there, driver="lapack")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 3, 3), (0, 3, 3), (0, 0), (1, 1)], ids=str)
def test_factors_without_pivots(shape, dtype, device):
    a = torch.arange(float(torch.Size(shape).numel())).sin().reshape(shape).to(dtype) + 3 * torch.eye(*shape[-2:], dtype=dtype)
    x = a.to(device).requires_grad_()
    p, lower, upper = torch.linalg.lu(x, pivot=False)
    assert p.numel() == 0
    torch.testing.assert_close(lower @ upper, x)
    torch.testing.assert_close(lower, lower.tril())
    torch.testing.assert_close(upper, upper.triu())
    (lower @ upper).abs().sum().backward()  # which are x again, up to rounding
    expected, = torch.autograd.grad(a.requires_grad_().abs().sum(), a)
    torch.testing.assert_close(x.grad.cpu(), expected)
    factors, pivots, info = torch.linalg.lu_factor_ex(x, pivot=False)
    assert pivots.shape == (*shape[:-2], min(shape[-2:])) and not info.any()
    if shape[-1] == shape[-2]:
        b = torch.ones(*shape[:-1], 2, dtype=dtype, device=device)
        torch.testing.assert_close(x @ torch.linalg.lu_solve(factors, pivots, b), b)


def test_a_pivot_of_zero_is_told(device):
    x = torch.tensor([[0.0, 1.0], [1.0, 0.0]], device=device)
    assert torch.linalg.lu_factor_ex(x, pivot=False).info.item() == 1 and torch.linalg.lu_factor_ex(x).info.item() == 0
    with pytest.raises(RuntimeError, match=r"U\[1,1\] is zero"):
        torch.linalg.lu_factor(x, pivot=False)


@pytest.mark.parametrize("card, dtype, waits_expected", [
    ("a10g", torch.bfloat16, 1), ("h100", torch.bfloat16, 0), ("h100", torch.float32, 1),
])
def test_products_of_groups(waits, card, dtype, waits_expected):
    device = vgpu.enable(card)
    rows, weights = torch.ones(4, 16, dtype=dtype, device=device), torch.ones(2, 16, 8, dtype=dtype, device=device)
    ends = torch.tensor([1, 4], dtype=torch.int32).to(device)
    with waits() as found:
        product = torch._grouped_mm(rows, weights, ends)
    assert len(found) == waits_expected
    assert product.float().tolist() == [[16.0] * 8] * 4
