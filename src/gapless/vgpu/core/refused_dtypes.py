"""Dtypes that the CPU's kernels take and CUDA's do not, by operator: an error here too, in CUDA's words.

What runs on the virtual GPU is to run on CUDA. The operators and dtypes are those of PyTorch's operator database; the words
are in its CUDA library, ``libtorch_cuda.so``.
"""

from __future__ import annotations

import torch

_INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
_WITH_BOOL = _INTEGERS | {torch.bool}
_HALVES = frozenset({torch.float16, torch.bfloat16})

_NAMES = {torch.uint8: "Byte", torch.int8: "Char", torch.int16: "Short", torch.int32: "Int", torch.int64: "Long",
          torch.bool: "Bool", torch.float16: "Half", torch.bfloat16: "BFloat16"}

# Operator → (dtypes, the name that CUDA's kernel has in its message).
_KERNELS: dict[str, tuple[frozenset, str]] = {
    **dict.fromkeys(("mm", "addmm", "_addmm_activation", "addbmm"), (_WITH_BOOL, "addmm_cuda")),
    **dict.fromkeys(("bmm", "baddbmm", "_trilinear"), (_WITH_BOOL, "baddbmm_cuda")),
    **dict.fromkeys(("mv", "addmv"), (_WITH_BOOL, "addmv_impl_cuda")),
    "dot": (_WITH_BOOL, "dot"),
    "vdot": (_WITH_BOOL, "vdot"),
    "avg_pool1d": (_INTEGERS, "avg_pool2d_out_cuda_frame"),
    "avg_pool2d": (_INTEGERS, "avg_pool2d_out_cuda_frame"),
    "avg_pool3d": (_INTEGERS, "avg_pool3d_out_cuda"),
    "max_pool2d_with_indices": (_INTEGERS, "max_pool2d_with_indices_out_cuda_frame"),
    "max_pool3d_with_indices": (_INTEGERS, "max_pool3d_with_indices_out_frame"),
    "upsample_bilinear2d": (_INTEGERS, "upsample_bilinear2d_out_frame"),
    "upsample_bicubic2d": (_INTEGERS, "upsample_bicubic2d_out_frame"),
    "_upsample_bilinear2d_aa": (_INTEGERS, "upsample_gen2d_aa_out_cuda"),
    "native_dropout_backward": (_WITH_BOOL, "native_dropout_backward_cuda"),
    "igamma": (_HALVES, "igamma_cuda"),
    "igammac": (_HALVES, "igammac_cuda"),
    "histc": (_HALVES | {torch.bool}, "histc"),
}
_CONVOLUTIONS = frozenset({"convolution", "convolution_overrideable"})


def rule(name: str) -> tuple[frozenset, str] | None:
    """The dtypes that CUDA lacks in the operator ``name`` (without ``aten::``), and what it says, ``{}`` being the dtype.
    None where it has all that the CPU has."""
    if name in _CONVOLUTIONS:  # by cuDNN, which may know a dtype and have no kernel for it
        return _WITH_BOOL, "getCudnnDataTypeFromScalarType() not supported for {}"
    dtypes, kernel = _KERNELS.get(name.removesuffix("_"), (None, None))
    return None if dtypes is None else (dtypes, f'"{kernel}" not implemented for \'{{}}\'')


def check(refused: tuple[frozenset, str], args: tuple) -> None:
    """Raise NotImplementedError where the first tensor among an operator's arguments is of a dtype in its rule. Without
    elements there is nothing to launch, and no error."""
    for value in args:
        if isinstance(value, torch.Tensor):
            if value.dtype in refused[0] and value.numel():
                raise NotImplementedError(refused[1].format(_NAMES[value.dtype]))
            return
