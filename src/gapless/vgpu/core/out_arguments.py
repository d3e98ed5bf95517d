"""``out=`` of operators that would pass it over: the result is written there."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from ..process.state import DEVICE, state
from .operands import scalar_type

# PyTorch's C++ gives these a result of its own instead, where it sees a tensor subclass (ATen, LinearAlgebra.cpp,
# ``matrix_rank_impl``).
_PASSED_OVER = ("linalg_matrix_rank", "matrix_rank")
_MATMUL = torch.ops.aten.matmul.default


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
        raise RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices, {DEVICE} and "
                           f"{target.device}! (out= of {func._schema.name}: make it on {str(DEVICE)!r})")
    if target.dtype != dtype and not (cast and torch.can_cast(dtype, target.dtype)):
        raise RuntimeError(f"{func._schema.name}: Expected out tensor to have scalar type {scalar_type(dtype)} but got "
                           f"scalar type {scalar_type(target.dtype)}")


def filled(handler: Callable, functional) -> Callable:
    """``handler``, which knows nothing of ``out``, for an overload with it. ``functional``: the operator without."""

    def handle(operator, args, kwargs):
        targets = tuple(kwargs[name] for name in names(operator.func))
        others = {name: value for name, value in kwargs.items() if name not in names(operator.func)}
        found = handler(functional, args, others)
        for target, result in zip(targets, found if isinstance(found, (list, tuple)) else (found,), strict=True):
            _refuse(operator.func, target, result.dtype)
            if target.shape != result.shape:
                target.within.resize_(result.shape)
            target.within.copy_(result.within)
            target.follow(state.memory)
        return targets[0] if len(targets) == 1 else targets

    return handle


def _into(functional, *args, **kwargs):
    """For operators that PyTorch makes of others: a copy."""
    *others, out = kwargs
    target, found = kwargs[out], functional(*args, **{name: kwargs[name] for name in others})
    _refuse(functional, target, found.dtype, cast=functional is not _MATMUL)
    return (target if target.shape == found.shape else target.resize_(found.shape)).copy_(found)


def _matmul(func, x, y, *, out):
    """A batch times one matrix goes through a view of ``out``, which PyTorch does not know for one here (ATen,
    LinearAlgebra.cpp, ``_matmul_impl``, ``is_alias_of``): its storage is the wrapper's own."""
    folds = max(x.dim(), y.dim()) > 2 >= min(x.dim(), y.dim())
    if folds:
        return _into(_MATMUL, x, y, out=out)
    return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, x, y, out=out)  # `decompose` would copy


def install(aten: torch.library.Library, composites: dict) -> None:
    """Register those for the device. ``composites``: where they are looked up without autograd."""
    _register(aten, composites, torch.ops.aten.matmul.out, _matmul, torch.ops.aten.matmul.out)
    for name in _PASSED_OVER:
        packet = getattr(torch.ops.aten, name, None)
        for func in (getattr(packet, overload) for overload in (packet.overloads() if packet is not None else ())):
            if names(func):
                _register(aten, composites, func, _into, without(func))


def _register(aten: torch.library.Library, composites: dict, func, function: Callable, first) -> None:
    """``function``, given ``first`` before the rest, stands for ``func`` on the device, with autograd and without."""
    composites[func] = functools.partial(function, first)
    aten.impl(func, composites[func], "AutogradPrivateUse1")
