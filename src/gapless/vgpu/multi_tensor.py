"""Multi-tensor operators that leave their fast path, as on CUDA."""

from __future__ import annotations

import torch

from .dispatch import COMPOSITES
from .tensor import VirtualTensor


def _copy(targets, sources, non_blocking=False):
    """Between the host and the device one by one (ATen, cuda/ForeachBinaryOpList.cu,
    ``foreach_tensor_copy_list_kernel_cuda_``)."""
    if all(isinstance(each, VirtualTensor) for each in (*targets, *sources)):
        return NotImplemented
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source, non_blocking)
    return None


COMPOSITES[torch.ops.aten._foreach_copy_.default] = _copy
