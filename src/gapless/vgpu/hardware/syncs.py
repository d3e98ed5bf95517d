"""Which operators make the host wait, and why: what PyTorch's CUDA kernels do inside.

Copies, comparisons, indexing and operands that are read as numbers decide by where their arguments lie and are in
:mod:`gapless.vgpu.operators`. Facts from PyTorch 2.11: its headers and, where the host's code is the same for CPU and
CUDA, what a profile of PyTorch's own sample inputs on the CPU shows inside the operator. The idioms that follow from
them, each with its source, are in :mod:`gapless.fidelity.idioms`.
"""

from __future__ import annotations

import torch

# Operator → how many times it reads a number back before it can go on.
# Each needs the number to size its result, to answer with a Python value, or to raise an error.
READ_BACKS: dict[str, int] = {
    "_unique2": 1,  # how many distinct values: the size of the result (ATen, cuda/UniqueCub.cu)
    "_unique": 1,
    "unique_consecutive": 1,
    "unique_dim": 2,  # Thrust waits after its sort and returns the count to the host (ATen, cuda/Unique.cu)
    "unique_dim_consecutive": 1,  # no sort
    "bincount": 2,  # the smallest value (to refuse negatives) and the largest (the size) (ATen, cuda/SummaryOps.cu)
    "repeat_interleave": 2,  # the sum of the repeats, and whether one is negative (ATen, Repeat.h)
    # Whether a factorisation failed, to raise an error (ATen, BatchLinearAlgebra.cpp). cuSOLVER may wait more often.
    "_linalg_check_errors": 1,
    "_linalg_eigh": 1,
    "_linalg_svd": 1,
    "linalg_eig": 1,
    "linalg_pinv": 1,  # of a singular value decomposition
    "cholesky": 1,
    "cholesky_inverse": 1,
    "linalg_matrix_exp": 6,  # which matrices need which degree: a `nonzero` each (ATen, LinearAlgebra.cpp)
}


# Those of each channel ask whether they are switched on (ATen, quantized/cuda/FusedObsFakeQuant.cu).
_FUSED_OBSERVERS = ("_fused_moving_avg_obs_fq_helper", "fused_moving_avg_obs_fake_quant")


def is_known(name: str) -> bool:
    """Whether :func:`read_backs` has the operator ``name``."""
    return name in READ_BACKS or name in ("histc", "normal", "isin", *_FUSED_OBSERVERS)


def read_backs(name: str, args: tuple, kwargs: dict) -> int:
    """How many read-backs this call makes."""
    if name == "histc":
        lowest, highest = (*args[2:4], kwargs.get("min", 0), kwargs.get("max", 0))[:2]
        # Without limits it finds the smallest and the largest value.
        return 2 if lowest == highest and args[0].numel() else 0
    if name == "repeat_interleave" and (kwargs.get("output_size") is not None or not args[0].numel()):
        return 0
    if name == "bincount" and not args[0].numel():
        return 0
    if name == "normal":
        return _normal(args, kwargs)
    if name == "isin":
        return _isin(args, kwargs)
    if name in _FUSED_OBSERVERS:
        return int(bool(args[11] if len(args) > 11 else kwargs.get("per_row_fake_quant", False)))
    return READ_BACKS.get(name, 0)


def _normal(args: tuple, kwargs: dict) -> int:
    """A tensor of deviations is checked for negative ones: by ``normal`` and again by what it calls (ATen,
    DistributionTemplates.h, ``normal_impl`` and ``normal_out_impl``)."""
    deviations = args[1] if len(args) > 1 else kwargs.get("std")
    if not isinstance(deviations, torch.Tensor) or not deviations.numel():
        return 0
    return 1 if kwargs.get("out") is not None else 2


def _isin(args: tuple, kwargs: dict) -> int:
    """Few values to look for are compared one by one; many are sorted, after a ``unique`` of each side (ATen,
    TensorCompare.cpp, ``isin_Tensor_Tensor_out``)."""
    elements, tested = args[:2]
    if not (isinstance(elements, torch.Tensor) and isinstance(tested, torch.Tensor)) or kwargs.get("assume_unique"):
        return 0
    few = tested.numel() < int(10.0 * elements.numel() ** 0.145)
    return 0 if few or not elements.numel() or not tested.numel() else 2
