"""Which memory format cuDNN works in, and which operands are converted to it first."""

from __future__ import annotations

import torch


def suggests_channels_last(tensor: torch.Tensor) -> bool:
    """Whether 4-D ``tensor`` has channels-last strides; where sizes of 1 leave both open it has not (c10's
    ``is_channels_last_strides_2d``)."""
    least, sizes, strides = 0, tensor.shape, tensor.stride()
    if strides[1] == 0:
        return False
    for dim in (1, 3, 2, 0):
        if strides[dim] < least or sizes[dim] == 0 or (dim == 0 and least == strides[1]):
            return False
        least = strides[dim] * max(sizes[dim], 1)
    return True


def channels_last(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether a convolution of these works in channels-last order: if one of them has it, and none is float64 (ATen,
    ``ConvUtils.h``, ``cudnn_conv_suggest_memory_format``)."""
    if x.dim() != 4 or torch.float64 in (x.dtype, weight.dtype):
        return False
    return suggests_channels_last(x) or suggests_channels_last(weight)


def is_converted(tensor: torch.Tensor, to_channels_last: bool) -> bool:
    """Whether a copy of ``tensor`` in that format is made first."""
    return not tensor.is_contiguous(memory_format=torch.channels_last if to_channels_last else torch.contiguous_format)
