"""Formulas that take a way of their own for tensor subclasses, the wrapper among them, and so miss CUDA's values and waits.

ATen asks ``isTensorSubclassLike`` where it would read a number or need a size that depends on values. These operators
are caught where autograd begins, and their formulas are those that CUDA takes: ``prod_backward`` and
``masked_fill_backward`` (torch/csrc/autograd/FunctionsManual.cpp), ``cumprod_backward`` (ATen, ReduceOps.cpp) and
``cross_entropy_loss_label_smoothing`` (ATen, LossNLL.cpp). Forward-mode derivatives and what :mod:`torch.func`
transforms go PyTorch's own way, which is the subclass's on CUDA too.

Other such questions (the gradients of ``gather``, ``clamp``, attention's mask, …) choose between writing in place and not.
"""

from __future__ import annotations

import torch
from torch.autograd import forward_ad

from ..core.dispatch import COMPOSITES, of_the_device
from ..core.tensor import VirtualTensor
from ..process.eager import eager

aten = torch.ops.aten

_MEAN = 1  # at::Reduction

# What PyTorch would run: its kernels for autograd are the same for each device, and no other is ours.
_PYTORCHS = torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradMeta)


# -- products -------------------------------------------------------------------------------------


def _unknown(x: torch.Tensor) -> bool:
    return isinstance(x, VirtualTensor) and x.within.is_meta


def _prod_with_zeros(grad, x, dim: int):
    """``prod_safe_zeros_backward``."""
    if x.numel() == 0:
        return grad.expand_as(x)
    if x.shape[dim] == 1:
        return grad
    ones = torch.ones([1 if place == dim else size for place, size in enumerate(x.shape)], dtype=grad.dtype, device=x.device)
    rest = x.shape[dim] - 1
    before = torch.cat([ones, x.narrow(dim, 0, rest)], dim).cumprod(dim)
    after = torch.cat([ones, x.narrow(dim, 1, rest).flip(dim)], dim).cumprod(dim).flip(dim)
    return grad * (before * after).conj()


def _prod_backward(grad, x, result):
    if x.dim() == 0:
        return grad
    zeros = (x == 0).nonzero()
    if _unknown(x) or not zeros.numel():
        return grad * (result / x).conj()
    if not torch.is_grad_enabled() and zeros.shape[0] > 1:
        return torch.zeros_like(x, memory_format=torch.contiguous_format)
    return _prod_with_zeros(grad, x.contiguous().view(-1), 0).view_as(x)


def _prod_along_backward(grad, x, result, dim: int, keepdim: bool):
    if x.dim() == 0:
        return grad
    dim %= x.dim()
    if not keepdim:
        grad, result = grad.unsqueeze(dim), result.unsqueeze(dim)
    if not (x == 0).sum(dim, keepdim=True).sum().item():
        return grad * (result / x).conj()
    return _prod_with_zeros(grad, x, dim)


def _reversed_cumsum(x, dim: int):
    return x.flip(dim).cumsum(dim).flip(dim)


def _cumprod_backward(grad, x, result, dim: int):
    if x.numel() <= 1 or x.shape[dim] == 1:
        return grad
    dim %= x.dim()
    x_conj, result_conj = x.conj(), result.conj()
    weighted, is_zero = result_conj * grad, x == 0
    if not is_zero.any().item():
        return _reversed_cumsum(weighted, dim).div(x_conj)
    if torch.is_grad_enabled():
        return _cumprod_backward_again(grad, x, x_conj, dim)
    found = torch.zeros(x.shape, dtype=grad.dtype, device=grad.device)
    zeros = is_zero.cumsum(dim)
    before_first = zeros == 0
    found.masked_scatter_(before_first, _reversed_cumsum(weighted.masked_fill(~before_first, 0.0), dim).div_(x_conj)
                          .masked_select(before_first))
    mask = zeros == 1
    place = mask.max(dim, keepdim=True).indices
    at_first = torch.zeros_like(mask).scatter_(dim, place, 1).logical_and_(mask)
    mask &= ~at_first
    between = x_conj.masked_fill(~mask, 1.0).cumprod(dim).mul_(grad.masked_fill(zeros != 1, 0.0)).sum(dim, keepdim=True)
    between.mul_(result_conj.gather(dim, (place - 1).relu_()).masked_fill_(place == 0, 1.0))
    return found.masked_scatter_(at_first, between.masked_select(at_first))


def _cumprod_backward_again(grad, x, x_conj, dim: int):
    """The same by a formula that has derivatives."""
    found = torch.zeros(x.shape, dtype=grad.dtype, device=grad.device)
    steps = x.shape[dim]
    for step in range(steps):
        after = [x_conj.narrow(dim, step + 1, steps - step - 1).cumprod(dim)] if step < steps - 1 else []
        if step:
            before = x_conj.narrow(dim, 0, step).prod(dim, keepdim=True)
            after = [before.expand_as(each) * each for each in after]
        else:
            before = torch.ones_like(x_conj.narrow(dim, 0, 1))
        left_out = torch.cat([before, *after], dim)
        found.select(dim, step).copy_((grad.narrow(dim, step, steps - step) * left_out).sum(dim))
    return found


class _Product(torch.autograd.Function):
    """``prod`` and ``cumprod``: ``func`` of ``x`` and ``args``."""

    @staticmethod
    def forward(ctx, func, formula, x, args, kwargs):
        result = func(x, *args, **kwargs)
        ctx.formula, ctx.dims = formula, args
        ctx.save_for_backward(x, result)
        return result

    @staticmethod
    @eager
    @of_the_device
    def backward(ctx, grad):
        x, result = ctx.saved_tensors
        return None, None, ctx.formula(grad, x.to(grad.dtype), result, *ctx.dims), None, None


# -- masked_fill ----------------------------------------------------------------------------------


class _MaskedFill(torch.autograd.Function):
    """``masked_fill`` and ``masked_fill_`` with a value that has a gradient."""

    @staticmethod
    def forward(ctx, func, x, mask, value):
        ctx.save_for_backward(mask)
        if func is aten.masked_fill_.Tensor:
            ctx.mark_dirty(x)
        return func(x, mask, value)

    @staticmethod
    @eager
    @of_the_device
    def backward(ctx, grad):
        mask, = ctx.saved_tensors
        _, of_x, _, of_value = ctx.needs_input_grad
        return (None, grad.masked_fill(mask, 0) if of_x else None, None,
                grad.masked_select(mask).sum() if of_value else None)


# -- where autograd begins ------------------------------------------------------------------------


def _taken(*tensors) -> bool:
    """Whether autograd will want a formula of ours for an operator on ``tensors``."""
    return torch.is_grad_enabled() and forward_ad._current_level < 0 and all(type(t) is VirtualTensor for t in tensors)


def _product(func, formula, places: tuple[int, ...]):
    """The kernel of ``func``. ``places``: of the arguments, beside the first, that the formula takes."""
    names = [func._schema.arguments[place] for place in places]

    @eager
    def kernel(keys, x, *args, **kwargs):
        if not (_taken(x) and x.requires_grad):
            return func.redispatch(keys | _PYTORCHS, x, *args, **kwargs)
        given = [args[place - 1] if place <= len(args) else kwargs.pop(name.name, name.default_value)
                 for place, name in zip(places, names)]
        return _Product.apply(func, formula, x, given, kwargs)

    return kernel


def _masked_fill(func):
    @eager
    def kernel(keys, x, mask, value):
        if _taken(x, mask) and value.requires_grad:
            return _MaskedFill.apply(func, x, mask, value)
        return func.redispatch(keys | _PYTORCHS, x, mask, value)

    return kernel


@of_the_device
@eager
def _cross_entropy(x, target, weight=None, reduction=_MEAN, ignore_index=-100, label_smoothing=0.0):
    if not (weight is not None and 0.0 < label_smoothing <= 1.0 and reduction == _MEAN and x.shape != target.shape
            and all(type(t) is VirtualTensor for t in (x, target, weight))):
        return aten.cross_entropy_loss.default.decompose(x, target, weight, reduction, ignore_index, label_smoothing)
    dim = 0 if x.dim() == 1 else 1
    logs = x.log_softmax(dim, dtype=x.dtype)
    plain = aten.nll_loss_nd(logs, target, weight, reduction, ignore_index)
    shape = [-1 if place == dim else 1 for place in range(logs.dim())]
    ignored = target == ignore_index
    smooth = -(logs * weight.view(shape)).sum(dim)
    smooth.masked_fill_(ignored, 0.0)
    mean = smooth.sum() / weight.gather(0, target.masked_select(~ignored).flatten()).sum()
    return (1 - label_smoothing) * plain + mean * (label_smoothing / logs.shape[dim])


COMPOSITES[aten.cross_entropy_loss.default] = _cross_entropy


def install(library: torch.library.Library) -> None:
    """Catch the operators where autograd begins."""
    for func, formula, places in ((aten.prod.default, _prod_backward, ()),
                                  (aten.prod.dim_int, _prod_along_backward, (1, 2)),
                                  (aten.cumprod.default, _cumprod_backward, (1,))):
        library.impl(func, _product(func, formula, places), "AutogradPrivateUse1", with_keyset=True)
    for func in (aten.masked_fill.Tensor, aten.masked_fill_.Tensor):
        library.impl(func, _masked_fill(func), "AutogradPrivateUse1", with_keyset=True)
    library.impl(aten.cross_entropy_loss.default, _cross_entropy, "AutogradPrivateUse1")
