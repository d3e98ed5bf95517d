"""Lazy conjugates and negatives: the program's, and those that kernels of the CPU's make, on the device and while the host is
counted."""

import copy
import io

import pytest
import torch

from gapless import vgpu


@pytest.mark.parametrize("device", ["cpu", "vgpu:0"])
@pytest.mark.parametrize("function", [torch.linalg.pinv, lambda x: torch.linalg.lstsq(x, x[:, :2].detach() + 1).solution])
def test_it_is_seen(function, device):
    vgpu.enable("a10g")
    values = torch.randn(5, 3, dtype=torch.complex128)  # so exact that a drawn matrix near singular is no matter

    def result_and_gradient(device):
        x = values.to(device).requires_grad_()
        result = function(x)
        return result.detach().cpu(), torch.autograd.grad(result.abs().sum(), x)[0].cpu()

    wanted = result_and_gradient("cpu")
    with vgpu.host_clock.counting():
        found = result_and_gradient(device)
    torch.testing.assert_close((*found, *result_and_gradient(device)), wanted + wanted)


# What it gives, or has written, of two complex matrices.
USES = {
    "a view": lambda x, y: x.conj(),
    "twice": lambda x, y: x.conj().conj(),
    "real part": lambda x, y: x.conj().real,
    "imaginary part": lambda x, y: x.conj().imag,
    "a negative": lambda x, y: torch._neg_view(x.real),
    "a view of it": lambda x, y: x.conj()[1:].t(),
    "detached": lambda x, y: x.conj().detach(),
    "a copy": lambda x, y: x.conj().t().contiguous(),
    "resolved": lambda x, y: x.conj().resolve_conj(),
    "sum": lambda x, y: x.conj().sum(),
    "a kernel that knows": lambda x, y: x.mH @ y.conj(),
    "one that does not": lambda x, y: 1 - x.conj() * y,
    "joined": lambda x, y: torch.cat([x.conj(), y]),
    "another dtype": lambda x, y: x.conj().to(torch.complex128),
    "a list": lambda x, y: torch._foreach_mul([x.conj()], [y])[0],
    "written": lambda x, y: x.conj().copy_(y),
    "written from one": lambda x, y: x.copy_(y.conj()),
    "a part written": lambda x, y: x.conj()[1:].mul_(1j),
    "its imaginary part written": lambda x, y: x.conj().imag.fill_(3.0),
    "a negative written": lambda x, y: torch._neg_view(x.real).add_(1.0),
    "an index written": lambda x, y: x.conj().index_put_((torch.tensor([0], device=x.device),), y[0]),
    "a mask written": lambda x, y: x.conj().masked_fill_(x.real > 0, 2j),
    "out=": lambda x, y: torch.mul(x, y, out=x.conj()),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_lazy_conjugate_is_a_view_as_elsewhere(use, device):
    def found(device):
        x, y = (torch.randn(3, 4, dtype=torch.complex64, generator=torch.Generator().manual_seed(seed)).to(device) for seed in (0, 1))
        result = use(x, y)
        return result.is_conj(), result.is_neg(), *(each.cpu().resolve_conj().resolve_neg() for each in (result, x, y))

    torch.testing.assert_close(found(device), found("cpu"))


def test_it_launches_nothing_until_it_is_read(device):
    x = torch.ones(4, dtype=torch.complex64, device=device)
    before = vgpu.timeline().kernel_count
    lazy = x.conj()
    assert vgpu.timeline().kernel_count == before and lazy.data_ptr() == x.data_ptr()
    lazy.add(1)
    assert vgpu.timeline().kernel_count == before + 2  # a conjugate of its own, as on CUDA, and the sum


def test_it_is_copied_and_saved(device):
    lazy = torch.tensor([1 + 2j], device=device).conj()
    file = io.BytesIO()
    torch.save(lazy, file)
    file.seek(0)
    for copied in (copy.deepcopy(lazy), torch.load(file)):
        assert copied.device == lazy.device and copied.tolist() == [1 - 2j]


def test_without_values(device):
    with vgpu.shape_only():
        lazy = torch.empty(3, dtype=torch.complex64, device=device).conj()
        assert (lazy @ lazy).shape == () and lazy.imag.is_neg()
