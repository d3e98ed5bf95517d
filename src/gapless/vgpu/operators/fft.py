"""Fourier transforms in half precision, as cuFFT has them.

PyTorch asks by the device's name whether there are any (ATen, SpectralOps.cpp, ``promote_type_fft``), and knows CUDA's and
others' only. The promotions here are CUDA's: float16 to complex32, bfloat16 by way of float32 to complex64.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch._refs import fft as reference

from ..core.dispatch import COMPOSITES, handles, run

_REAL = ("fft", "ifft", "rfft", "ihfft", "rfft2", "rfftn", "ihfft2", "ihfftn")  # that take real numbers as they are
_ALL = (*_REAL, "irfft", "hfft", "fft2", "ifft2", "irfft2", "hfft2", "fftn", "ifftn", "irfftn", "hfftn")
_NONE, _ROOT, _SIZE = 0, 1, 2  # ATen, SpectralOpsUtils.h, fft_norm_mode


def _norm_mode(norm: str | None, forward: bool) -> int:
    if norm == "ortho":
        return _ROOT
    return _SIZE if forward == (norm == "forward") else _NONE


def _half_of_real(name: str, x: torch.Tensor, size, dims, norm: str | None) -> torch.Tensor:
    """A transform of real float16 numbers. ``size`` and ``dims``: of the transformed dimensions, or None."""
    shape, dims = reference._canonicalize_fft_shape_and_dim_args(x, size, dims)
    x = reference._resize_fft_input(x, dims, shape)
    forward, one_sided = not name.startswith("i"), "r" in name or "h" in name
    mode = _norm_mode(norm, forward)
    if forward:
        return torch._fft_r2c(x, dims, mode, one_sided)
    found = torch._fft_r2c(x, dims[-1:], mode, one_sided).conj()
    return torch._fft_c2c(found, dims[:-1], mode, False) if len(dims) > 1 else found


def _promoted(name: str, func) -> Callable:
    whole = name.endswith(("2", "n"))
    last = (-2, -1) if name.endswith("2") else None if whole else -1

    def transform(x, size=None, dim=last, norm=None):
        if x.dtype == torch.bfloat16:
            return func(x.float(), size, dim, norm)
        if x.dtype != torch.float16:
            return func.decompose(x, size, dim, norm)
        if name not in _REAL:
            return func(x.to(torch.complex32), size, dim, norm)
        if not whole:
            size, dim = size if size is None else (size,), (dim,)
        return _half_of_real(name, x, size, dim, norm)

    return transform


@handles("_fft_r2c", "_fft_c2r", "_fft_c2c", out=True)
def _transform(operator, args, kwargs):
    x, dims = args[:2]
    if x.dtype in (torch.float16, torch.complex32):
        sizes = [x.shape[dim] for dim in dims]
        if operator.name == "_fft_c2r":
            sizes[-1] = args[3]
        if any(size & (size - 1) for size in sizes):  # ATen, native/cuda/CuFFTPlanCache.h
            raise RuntimeError("cuFFT only supports dimensions whose sizes are powers of two when computing in half "
                               f"precision, but got a signal size of{sizes}")
    return run(operator, args, kwargs)


def install(aten: torch.library.Library) -> None:
    """Register the transforms for the device, with autograd and without."""
    for name in _ALL:
        func = getattr(torch.ops.aten, f"fft_{name}").default
        COMPOSITES[func] = _promoted(name, func)
        aten.impl(func, COMPOSITES[func], "AutogradPrivateUse1")
