"""Operands of an operator of the device that lie on the host: which CUDA takes, which it wants there, and which it refuses.

- A CPU tensor without dimensions goes to an elementwise kernel by value, one a call (ATen, ``TensorIterator.cpp``,
  ``compute_types``); other operators refuse it as they refuse any CPU tensor.
- What is written must be on the device.
- Lengths and lists of numbers that the host reads must be on the CPU (:data:`WANTED`).
"""

from __future__ import annotations

import functools

import torch

from ..process.state import DEVICE
from .tensor import VirtualTensor

aten = torch.ops.aten

# Not elementwise by their tags, yet they take a number on the host: copies and fills read it, or they are made of
# elementwise operators (``native_functions.yaml``: those without a device check).
_TAKE_NUMBERS = frozenset("""
    copy fill index _unsafe_index index_put _index_put_impl_ _unsafe_index_put index_fill masked_fill bernoulli mse_loss
    smooth_l1_loss huber_loss binary_cross_entropy_with_logits dist floor_divide rsub select_scatter slice_scatter
    diagonal_scatter as_strided_scatter linspace logspace where allclose
    _local_scalar_dense _to_copy
""".split())
_OF_SHAPES = frozenset(("is_same_size", "_has_same_storage_numel"))  # they look at no device
# They take one at this place alone, or (None) none at all, though they are elementwise (ATen, cuda/Indexing.cu,
# ``masked_fill__cuda``; TensorCompare.cpp, ``CLAMP_CONFIG``).
_PLACES = {"masked_fill": 2, "index_fill": 3, "fill": 1, "copy": 1, "bernoulli": 1, "select_scatter": 1, "slice_scatter": 1,
           "diagonal_scatter": 1, "as_strided_scatter": 1, "clamp": None, "native_dropout_backward": None}
# Each takes its numbers by itself.
_ANY_COUNT = frozenset({"index_put", "_index_put_impl_", "_unsafe_index_put", "linspace", "logspace"})


def _lengths(tensor: torch.Tensor) -> str | None:
    """ATen, ``PackedSequence.cpp``, ``checkLongTensor``."""
    if tensor.dim() == 1 and tensor.device.type == "cpu" and tensor.dtype == torch.int64:
        return None
    return (f"'lengths' argument should be a 1D CPU int64 tensor, but got {tensor.dim()}D {tensor.device} "
            f"{scalar_type(tensor.dtype)} tensor")


def _scalars(tensor: torch.Tensor) -> str | None:
    """ATen, ``ForeachUtils.h``, ``convert_tensor_to_scalar_list``."""
    return None if tensor.device.type == "cpu" else f"Expected scalars to be on CPU, got {tensor.device} instead."


def scalar_type(dtype: torch.dtype) -> str:
    """As PyTorch's messages name it."""
    return torch.empty(0, dtype=dtype, device="cpu").type().removeprefix("torch.").removesuffix("Tensor")


def elsewhere(tensor: torch.Tensor, what: str) -> RuntimeError:
    """PyTorch's error for a ``tensor`` that should be on the device. ``what``: where that is, and what to do."""
    return RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices, {DEVICE} and "
                        f"{tensor.device}! ({what})")


# Overload → the place of the operand that CUDA wants on the CPU, and what it says of another, None if it is right.
WANTED = {
    aten._pack_padded_sequence.default: (1, _lengths),
    aten._foreach_addcdiv.Tensor: (3, _scalars),
    aten._foreach_addcdiv_.Tensor: (3, _scalars),
    aten._foreach_addcmul.Tensor: (3, _scalars),
    aten._foreach_addcmul_.Tensor: (3, _scalars),
}


@functools.cache
def takes_numbers(func) -> bool:
    """Whether CUDA takes a tensor without dimensions on the CPU for an operand of ``func``, an OpOverload."""
    name = func._schema.name.split("::", 1)[1]
    if torch.Tag.pointwise in func.tags or {name, name.rstrip("_")} & _TAKE_NUMBERS:
        return True
    plain = getattr(aten, name.rstrip("_"), None) if func.namespace == "aten" else None
    return plain is not None and any(torch.Tag.pointwise in getattr(plain, each).tags for each in plain.overloads())


def check(operator, args: tuple, kwargs: dict, host: list[torch.Tensor], on_device: bool) -> None:
    """Raise RuntimeError where CUDA refuses one of ``host``, the operands on the CPU. ``on_device``: whether others are on
    the device."""
    if operator.name in _OF_SHAPES:
        return
    place, _ = WANTED.get(operator.func, (len(args), None))
    others = [each for each in host if place >= len(args) or each is not args[place]]
    if on_device and not operator.multi_tensor and others:
        refused = (not takes_numbers(operator.func) or _is_written(operator, args, kwargs, others)
                   or _stand_elsewhere(operator, args, kwargs, others))
    else:
        refused = False
    if refused or ((on_device or operator.mutates) and any(each.dim() for each in others)):
        other = next((each for each in others if each.is_meta), others[0])
        what = ("a meta tensor has no values: module.to_empty(device=…), then load them" if other.is_meta
                else f"move the CPU tensor with .to({str(DEVICE)!r})")
        raise elsewhere(other, f"in {operator.full_name}: {what}")
    if on_device and len(others) > 1 and not (operator.multi_tensor or operator.name.rstrip("_") in _ANY_COUNT):
        raise RuntimeError(f"Trying to pass too many CPU scalars to non-CPU kernel! (in {operator.full_name})")


def _stand_elsewhere(operator, args: tuple, kwargs: dict, others: list[torch.Tensor]) -> bool:
    name = operator.name.rstrip("_")
    if name not in _PLACES:
        return False
    place = _PLACES[name]
    if place is None:
        return True
    taken = args[place] if place < len(args) else kwargs.get(operator.func._schema.arguments[place].name)
    return any(each is not taken for each in others)


def _is_written(operator, args: tuple, kwargs: dict, others: list[torch.Tensor]) -> bool:
    return any(each is tensor for each in operator.written_of(args, kwargs) for tensor in others)


def check_wanted(func, args: tuple) -> None:
    """Raise RuntimeError where an operand of ``func``, one of :data:`WANTED`, is not on the CPU."""
    place, complaint = WANTED[func]
    if place < len(args) and isinstance(args[place], (torch.Tensor, VirtualTensor)):
        text = complaint(args[place])
        if text is not None:
            raise RuntimeError(text)
