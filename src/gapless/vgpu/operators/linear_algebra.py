"""Linear algebra where CUDA's way is not the CPU's."""

from __future__ import annotations

import torch

from ..core.dispatch import handles, read_back, run
from ..process.state import state


@handles("linalg_lstsq")
def _least_squares(operator, args, kwargs):
    # CUDA has one driver, which finds no ranks and no singular values (ATen, BatchLinearAlgebra.cpp, linalg_lstsq_out).
    if kwargs.get("driver") not in (None, "gels"):
        raise RuntimeError("torch.linalg.lstsq: `driver` other than `gels` is not supported on CUDA")
    return run(operator, args, {**kwargs, "driver": "gels"})


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
