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


def _one_by_one(name: str, in_place: bool):
    """The operator ``name`` on two lists: where the tensors of a pair differ in shape, as those by a number of their own
    (without dimensions) do, each pair has a kernel to itself (ATen, native/ForeachUtils.h, ``check_fast_path_restrictions``;
    native/ForeachOpsKernels.cpp). Other reasons for the slow path, other strides or dtypes, are not looked for."""
    call = getattr(torch.Tensor, name + "_" * in_place)

    def run(tensors, others, **options):
        if all(tensor.shape == other.shape for tensor, other in zip(tensors, others)):
            return NotImplemented
        found = [call(tensor, other, **options) for tensor, other in zip(tensors, others, strict=True)]
        return None if in_place else found

    return run


for _name in ("add", "sub", "mul", "div"):
    for _in_place in (False, True):
        _packet = getattr(torch.ops.aten, f"_foreach_{_name}{'_' * _in_place}")
        COMPOSITES[_packet.List] = _one_by_one(_name, _in_place)
