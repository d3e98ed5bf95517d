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
