"""Linear algebra where CUDA's way is not the CPU's."""

from __future__ import annotations

import copy

import torch

from ..core.dispatch import handles, read_back, run
from ..process.state import state


@handles("linalg_lstsq")
def _least_squares(operator, args, kwargs):
    # CUDA has one driver, which finds no ranks and no singular values (ATen, BatchLinearAlgebra.cpp, linalg_lstsq_out).
    if kwargs.get("driver") not in (None, "gels"):
        raise RuntimeError("torch.linalg.lstsq: `driver` other than `gels` is not supported on CUDA")
    return run(operator, args, {**kwargs, "driver": "gels"})


@handles("_linalg_svd")
def _singular_values(operator, args, kwargs):
    # cuSOLVER's algorithms, which differ in how exact and how fast they are. PyTorch's CPU has one, and takes no name.
    driver = kwargs.get("driver")
    if driver not in (None, "gesvd", "gesvdj", "gesvda"):
        raise RuntimeError(f"torch.linalg.svd: unknown svd driver {driver}")
    return run(operator, args, {**kwargs, "driver": None})


@handles("linalg_lu_factor_ex", "linalg_lu")
def _lu(operator, args, kwargs):
    if kwargs.get("pivot", True):
        return run(operator, args, kwargs)
    without = copy.copy(operator)  # PyTorch's CPU has none, LAPACK neither
    without.call = _lu_factor_without_pivots if operator.name == "linalg_lu_factor_ex" else _lu_without_pivots
    return run(without, args, kwargs)


def _lu_factor_without_pivots(a: torch.Tensor, *, check_errors: bool = False, **options):
    least, factors = min(a.shape[-2:]), a.clone()
    info = torch.zeros(a.shape[:-2], dtype=torch.int32, device=a.device)
    for column in range(0 if a.is_meta else least):  # Gaussian elimination
        pivot = factors[..., column, column]
        info = torch.where((info == 0) & (pivot == 0), column + 1, info)
        below = factors[..., column + 1:, column]
        below /= pivot[..., None]
        factors[..., column + 1:, column + 1:] -= below[..., None] * factors[..., column, None, column + 1:]
    if check_errors:
        torch._linalg_check_errors(info.int(), "torch.linalg.lu_factor_ex", is_matrix=a.dim() == 2)
    pivots = torch.arange(1, least + 1, dtype=torch.int32, device=a.device).expand(*a.shape[:-2], least).contiguous()
    return factors, pivots, info.int()


def _lu_without_pivots(a: torch.Tensor, **options):
    factors, _, _ = _lu_factor_without_pivots(a)
    least = min(a.shape[-2:])
    lower = factors[..., :least].tril(-1)
    lower.diagonal(dim1=-2, dim2=-1).fill_(1)
    return a.new_empty(0), lower, factors[..., :least, :].triu()  # no permutation


@handles("_grouped_mm")
def _grouped_product(operator, args, kwargs):
    # The host slices the groups itself, except for bfloat16 on the cards that have a kernel for it (ATen,
    # cuda/GroupedBlas.cpp, _grouped_mm_cuda; GroupedMMUtils.h, _grouped_mm_fallback).
    first, second, *rest = args
    ends = rest[0] if rest else kwargs.get("offs")
    in_one = state.card.compute_capability[0] in (9, 10) and first.dtype == second.dtype == torch.bfloat16
    if ends is not None and not in_one:
        read_back(ends.numel() * ends.element_size())
    return run(operator, args, kwargs)
