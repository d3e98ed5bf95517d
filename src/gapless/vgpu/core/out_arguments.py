"""``out=`` of operators that would pass it over: the result is written there."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable

import torch

from ..process.state import DEVICE, state
from .operands import elsewhere, scalar_type

# PyTorch's C++ gives these a result of its own instead, where it sees a tensor subclass (ATen, LinearAlgebra.cpp,
# ``matrix_rank_impl``).
_PASSED_OVER = ("linalg_matrix_rank", "matrix_rank")


def names(func) -> list[str]:
    """The arguments of ``func``, an OpOverload, that results are written to."""
    return [argument.name for argument in func._schema.arguments if argument.is_out]


def without(func):
    """The overload of ``func`` that makes its results again."""
    wanted = {(each.name, str(each.type)) for each in func._schema.arguments if not each.is_out}
    packet = func._overloadpacket
    return next(found for found in (getattr(packet, name) for name in packet.overloads()) if not names(found)
                and wanted <= {(each.name, str(each.type)) for each in found._schema.arguments})


def _refuse(func, target: torch.Tensor, dtype: torch.dtype, cast: bool = False) -> None:
    """Raise RuntimeError where PyTorch writes no result of ``dtype`` to ``target``. ``cast``: whether it may be cast."""
    if target.device.type != DEVICE.type:
        raise elsewhere(target, f"out= of {func._schema.name}: make it on {str(DEVICE)!r}")
    if target.dtype != dtype and not (cast and torch.can_cast(dtype, target.dtype)):
        raise RuntimeError(f"{func._schema.name}: Expected out tensor to have scalar type {scalar_type(dtype)} but got "
                           f"scalar type {scalar_type(target.dtype)}")


def _is_resized(target: torch.Tensor, found: torch.Tensor) -> bool:
    """Whether ``target`` gets another shape. Warns as PyTorch does (ATen, Resize.cpp, ``resize_output_check``)."""
    if target.shape == found.shape:
        return False
    if target.numel():
        warnings.warn(f"An output with one or more elements was resized since it had shape {list(target.shape)}, which does "
                      f"not match the required output shape {list(found.shape)}. This behavior is deprecated, and in a "
                      "future PyTorch release outputs will not be resized unless they have zero elements: out.resize_(0) "
                      "before it", UserWarning, stacklevel=2)
    return True


def filled(handler: Callable, functional) -> Callable:
    """``handler``, which knows nothing of ``out``, for an overload with it. ``functional``: the operator without."""

    def handle(operator, args, kwargs):
        targets = tuple(kwargs[name] for name in names(operator.func))
        others = {name: value for name, value in kwargs.items() if name not in names(operator.func)}
        found = handler(functional, args, others)
        for target, result in zip(targets, found if isinstance(found, (list, tuple)) else (found,), strict=True):
            _refuse(operator.func, target, result.dtype)
            if _is_resized(target, result):
                target.within.resize_(result.shape)
            target.within.copy_(result.within)
            target.follow(state.memory)
        return targets[0] if len(targets) == 1 else targets

    return handle


def _rank(functional, *args, **kwargs):
    """``matrix_rank``, whose result may be cast."""
    *others, out = kwargs
    found = functional(*args, **{name: kwargs[name] for name in others})
    _refuse(functional, kwargs[out], found.dtype, cast=True)
    return _written(kwargs[out], found)


def _written(target: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    return (target.resize_(found.shape) if _is_resized(target, found) else target).copy_(found)


def _matmul(func, x, y, *, out):
    """PyTorch makes a batch times one matrix of a view of ``out``, and others of copies, which it does not know for one here
    (ATen, LinearAlgebra.cpp, ``_matmul_impl``, ``is_alias_of``): a tensor's storage is the wrapper's own."""
    plain = max(x.dim(), y.dim()) <= 2 or (x.shape[:-2] == y.shape[:-2] and (out.is_contiguous() or not out.numel()))
    if plain:
        return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, x, y, out=out)  # `decompose` would copy
    found = torch.matmul(x, y)
    _refuse(func, out, found.dtype)
    return _written(out, found)


def install(aten: torch.library.Library, composites: dict) -> None:
    """Register those for the device. ``composites``: where they are looked up without autograd."""
    _register(aten, composites, torch.ops.aten.matmul.out, _matmul, torch.ops.aten.matmul.out)
    for name in _PASSED_OVER:
        packet = getattr(torch.ops.aten, name, None)
        for func in (getattr(packet, overload) for overload in (packet.overloads() if packet is not None else ())):
            if names(func):
                _register(aten, composites, func, _rank, without(func))


def _register(aten: torch.library.Library, composites: dict, func, function: Callable, first) -> None:
    """``function``, given ``first`` before the rest, stands for ``func`` on the device, with autograd and without."""
    composites[func] = functools.partial(function, first)
    aten.impl(func, composites[func], "AutogradPrivateUse1")
