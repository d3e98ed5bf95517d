"""Which operators make the host wait, and why: what PyTorch's CUDA kernels do inside.

Copies, comparisons, indexing and operands that are read as numbers decide by where their arguments lie and are in
:mod:`...operators.copies`. Facts from PyTorch 2.11: its headers and, where the host's code is the same for CPU and
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
    # Whether a factorisation failed, to raise an error (ATen, BatchLinearAlgebra.cpp). cuSOLVER may wait more often.
    "_linalg_check_errors": 1,
    "linalg_eig": 2,  # whether all numbers are finite comes first
    "linalg_lstsq": 1,
    "linalg_polar": 1,
    "linalg_matrix_sqrth": 1,
    # Zero points that learn are rounded and checked, forward and backward (ATen, quantized/FakeQuantPerChannelAffine.cpp);
    # those of a whole tensor are read, with their scale (quantized/FakeQuantPerTensorAffine.cpp).
    "_fake_quantize_learnable_per_channel_affine": 2,
    "_fake_quantize_learnable_per_channel_affine_backward": 2,
    "_fake_quantize_learnable_per_tensor_affine": 2,
    "_fake_quantize_learnable_per_tensor_affine_backward": 2,
    "masked_scatter_backward": 1,  # a masked_select of the gradient (ATen, TensorAdvancedIndexing.cpp)
    "linalg_matrix_exp": 6,  # which matrices need which degree: a `nonzero` each (ATen, LinearAlgebra.cpp)
}


def is_known(name: str) -> bool:
    """Whether :func:`read_backs` has the operator ``name``."""
    return name in READ_BACKS or name in _BY_ARGUMENTS


def read_backs(name: str, args: tuple, kwargs: dict) -> int:
    """How many read-backs this call makes."""
    rule = _BY_ARGUMENTS.get(name)
    return READ_BACKS.get(name, 0) if rule is None else rule(args, kwargs)


def _argument(args: tuple, kwargs: dict, place: int, name: str):
    return args[place] if place < len(args) else kwargs.get(name)


def _histc(args: tuple, kwargs: dict) -> int:
    """Without limits it finds the smallest and the largest value."""
    lowest, highest = (*args[2:4], kwargs.get("min", 0), kwargs.get("max", 0))[:2]
    return 2 if lowest == highest and args[0].numel() else 0


def _repeat_interleave(args: tuple, kwargs: dict) -> int:
    """The sum of the repeats, and whether one is negative (ATen, Repeat.h)."""
    return 0 if kwargs.get("output_size") is not None or not args[0].numel() else 2


def _bincount(args: tuple, kwargs: dict) -> int:
    """The smallest value, to refuse negatives, which bytes cannot be, and the largest, the size (ATen, cuda/SummaryOps.cu,
    ``_bincount_cuda_template``)."""
    x = args[0]
    return 0 if not x.numel() else 1 if x.dtype == torch.uint8 else 2


def _nms(args: tuple, kwargs: dict) -> int:
    """A ``masked_select`` of the boxes that stay, unless there is none (torchvision, csrc/ops/cuda/nms_kernel.cu)."""
    return 1 if args[0].numel() else 0


def _searchsorted(args: tuple, kwargs: dict) -> int:
    """The smallest and the largest index of a sorter (ATen, BucketizationUtils.h, ``searchsorted_pre_check``)."""
    sorter = kwargs.get("sorter")
    return 2 if sorter is not None and sorter.numel() else 0


def _segment_reduce(args: tuple, kwargs: dict) -> int:
    """Whether a length is negative, and whether they add up (ATen, SegmentReduce.cpp, ``segment_reduce_kernel``). Offsets
    are taken as they are."""
    given = kwargs.get("lengths") is not None and kwargs.get("offsets") is None
    return 2 if given and not kwargs.get("unsafe") else 0


def _channels(args: tuple, kwargs: dict) -> int:
    """The smallest and the largest zero point, of integers (ATen, quantized/FakeQuantPerChannelAffine.cpp)."""
    return 0 if _argument(args, kwargs, 2, "zero_point").is_floating_point() else 2


def _observed(args: tuple, kwargs: dict) -> int:
    """A row's own quantisation is chosen by the host, and its zero points are checked (ATen, quantized/cuda/
    FusedObsFakeQuant.cu, ``fused_moving_avg_obs_fake_quant_cuda``)."""
    by_row = _argument(args, kwargs, 11, "per_row_fake_quant")
    return 0 if not by_row else 3


def _mode(args: tuple, kwargs: dict) -> int:
    """Rows too long for a block of threads go through Thrust one by one, which gives the host an iterator or a number five
    times (ATen, cuda/TensorModeKernel.cu, ``calculate_mode``)."""
    x = args[0]
    dim = args[1] if len(args) > 1 else kwargs.get("dim", -1)
    length = x.shape[dim] if x.dim() else 1
    return 0 if length <= _LONGEST_ROW_OF_MODE else 5 * (x.numel() // length)


_LONGEST_ROW_OF_MODE = 2048  # twice the threads of a block


def _normal(args: tuple, kwargs: dict) -> int:
    """A tensor of deviations is checked for negative ones: by ``normal`` and again by what it calls (ATen,
    DistributionTemplates.h, ``normal_impl`` and ``normal_out_impl``)."""
    deviations = args[1] if len(args) > 1 else kwargs.get("std")
    if not isinstance(deviations, torch.Tensor) or not deviations.numel():
        return 0
    return 1 if kwargs.get("out") is not None else 2


def _factorisation(waits: int):
    """Its errors are read where there is anything to factorise. Those of eigenvalues and singular values are read twice
    (counted on an H100, torch 2.11: records/operators_h100.json.gz)."""
    return lambda args, kwargs: waits if args[0].numel() else 0


def _isin(args: tuple, kwargs: dict) -> int:
    """Few values to look for are compared one by one; many are sorted, after a ``unique`` of each side (ATen,
    TensorCompare.cpp, ``isin_Tensor_Tensor_out``); a third wait was counted on an H100 (torch 2.11)."""
    elements, tested = args[:2]
    if not (isinstance(elements, torch.Tensor) and isinstance(tested, torch.Tensor)) or kwargs.get("assume_unique"):
        return 0
    few = tested.numel() < int(10.0 * elements.numel() ** 0.145)
    return 0 if few or not elements.numel() or not tested.numel() else 3


_BY_ARGUMENTS = {
    "histc": _histc, "repeat_interleave": _repeat_interleave, "bincount": _bincount, "normal": _normal, "isin": _isin,
    "nms": _nms, "searchsorted": _searchsorted, "segment_reduce": _segment_reduce, "mode": _mode,
    "fake_quantize_per_channel_affine_cachemask": _channels,
    "_fused_moving_avg_obs_fq_helper": _observed,
    "cholesky": _factorisation(1), "cholesky_inverse": _factorisation(1),
    "_linalg_eigh": _factorisation(2), "_linalg_svd": _factorisation(2), "linalg_pinv": _factorisation(2),
}
