"""Multi-tensor operators that leave their fast path, as on CUDA."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..core.dispatch import COMPOSITES
from ..core.tensor import VirtualTensor


def _copy(targets, sources, non_blocking=False):
    """Between the host and the device one by one (ATen, cuda/ForeachBinaryOpList.cu,
    ``foreach_tensor_copy_list_kernel_cuda_``)."""
    if all(isinstance(each, VirtualTensor) for each in (*targets, *sources)):
        return NotImplemented
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source, non_blocking)
    return None


COMPOSITES[torch.ops.aten._foreach_copy_.default] = _copy


def _norm(tensor, ord=2, dtype=None):
    return torch.ops.aten.linalg_vector_norm(tensor, ord, dtype=dtype)


def _with_value(call: Callable):
    return lambda tensor, first, second, value=1: call(tensor, first, second, value=value)


# Operators whose arguments are others where they take one tensor, or that have another name there (ATen,
# native/ForeachOpsKernels.cpp).
_SINGLE: dict[str, Callable] = {"norm": _norm, "maximum": torch.ops.aten.clamp_min, "maximum_": torch.ops.aten.clamp_min_,
                                "minimum": torch.ops.aten.clamp_max, "minimum_": torch.ops.aten.clamp_max_,
                                **{name: _with_value(getattr(torch.ops.aten, name)) for name in
                                   ("addcmul", "addcmul_", "addcdiv", "addcdiv_")}}
_WITHOUT_SINGLE = ("copy_", "powsum")


def _one_by_one(call: Callable, in_place: bool, is_norm: bool):
    """The operator ``call`` on lists. Each tensor has a call to itself where some are on another device, where dtypes
    differ, anywhere in them or from a number's on the device, or where the tensors of a pair differ in shape or strides (as
    those by a number of their own, without dimensions, do). Sources: ATen, native/ForeachUtils.h,
    ``check_fast_path_restrictions``; native/ForeachOpsKernels.cpp; for numbers cuda/ForeachBinaryOpScalarTensor.cu; for
    norms cuda/ForeachReduceOp.cu. Other reasons for the slow path, such as gaps in memory, are not looked for."""

    def run(tensors, *rest, **options):
        others = [each for each in rest if isinstance(each, (list, tuple)) and each and isinstance(each[0], torch.Tensor)]
        dtype = tensors[0].dtype
        numbers = [each for each in rest if isinstance(each, VirtualTensor)]
        fast = all(tensor.dtype is dtype and isinstance(tensor, VirtualTensor)
                   for each in (tensors, *others, numbers) for tensor in each) and all(
            tensor.shape == other.shape and tensor.stride() == other.stride()
            for each in others for tensor, other in zip(tensors, each))
        if fast and not (is_norm and not dtype.is_floating_point):
            return NotImplemented
        found = [call(tensor, *(each[place] if isinstance(each, (list, tuple)) else each for each in rest), **options)
                 for place, tensor in enumerate(tensors)]
        return None if in_place else found

    return run


def _install() -> None:
    """Every ``_foreach_`` operator whose first argument is a list of tensors."""
    for full_name in torch._C._dispatch_get_all_op_names():
        if not full_name.startswith("aten::_foreach_"):
            continue
        name, _, overload = full_name.removeprefix("aten::_foreach_").partition(".")
        if name in _WITHOUT_SINGLE or overload.endswith("out") or overload == "ScalarAndTensor":
            continue
        call = _SINGLE.get(name) or getattr(torch.ops.aten, name, None)
        if call is not None and not (overload == "Tensor" and name.startswith("addc")):
            func = getattr(getattr(torch.ops.aten, f"_foreach_{name}"), overload or "default")
            COMPOSITES[func] = _one_by_one(call, name.endswith("_"), name == "norm")


_install()
