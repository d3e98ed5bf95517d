"""Fourier transforms in half precision: CUDA's dtypes, near the values in float32; cuFFT's limits."""

import pytest
import torch

import gapless

NAMES = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2",
         "fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn")


@pytest.fixture
def device():
    return gapless.device("vgpu")


@pytest.mark.parametrize("norm", [None, "forward", "ortho"])
@pytest.mark.parametrize("name", NAMES)
def test_float16_gives_half_complex_numbers(device, name, norm):
    transform = getattr(torch.fft, name)
    size = {"irfft": 8, "hfft": 8}.get(name) or ((4, 8) if name.endswith(("2", "n")) else 4)
    x = torch.arange(32.0).reshape(4, 8).cos()
    wide, narrow = x.clone().requires_grad_(), x.half().to(device).requires_grad_()
    wanted, found = transform(wide, size, norm=norm), transform(narrow, size, norm=norm)
    assert found.dtype == (torch.complex32 if wanted.is_complex() else torch.float16)
    torch.testing.assert_close(found.detach().cpu().to(wanted.dtype), wanted.detach(), rtol=1e-2, atol=2e-2)
    wanted.abs().sum().backward()
    found.abs().sum().backward()
    torch.testing.assert_close(narrow.grad.cpu().float(), wide.grad, rtol=1e-2, atol=2e-2)


@pytest.mark.parametrize("name", NAMES)
def test_bfloat16_goes_by_way_of_float32(device, name):
    x = torch.arange(36.0).reshape(6, 6).bfloat16()
    wanted = getattr(torch.fft, name)(x.float())
    found = getattr(torch.fft, name)(x.to(device))
    assert found.dtype == wanted.dtype
    torch.testing.assert_close(found.cpu(), wanted)


def test_cufft_has_powers_of_two_in_half_precision(device):
    x = torch.ones(6, dtype=torch.float16, device=device)
    with pytest.raises(RuntimeError, match="powers of two when computing in half precision"):
        torch.fft.rfft(x)
    assert torch.fft.rfft(x.float()).shape == (4,) and torch.fft.rfft(x, n=4).shape == (3,)


def test_other_dtypes_are_as_ever(device):
    x = torch.arange(6.0)
    for given in (x, x.double(), x.int(), x + 1j):
        torch.testing.assert_close(torch.fft.fft(given.to(device)).cpu(), torch.fft.fft(given))


@torch.inference_mode()
def test_in_inference_mode_too(device):
    x = torch.ones(4, dtype=torch.float16, device=device)
    assert torch.fft.fft(x).dtype == torch.complex32 and torch.fft.fft(x).real.tolist() == [4.0, 0.0, 0.0, 0.0]
