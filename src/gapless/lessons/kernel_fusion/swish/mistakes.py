"""Lesson 07: the usual wrong versions of ``swish``, and what to say of each."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ....course.mistakes import Mistake


def _swish(derivative, once=False):
    """A swish whose backward pass multiplies by ``derivative(x)``."""

    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * torch.sigmoid(x)

        @staticmethod
        def backward(ctx, gradient):
            x, = ctx.saved_tensors
            return gradient * derivative(x)

    if once:
        Swish.backward = staticmethod(torch.autograd.function.once_differentiable(Swish.backward))
    return lambda x: Swish.apply(x)


def _s(x):
    return torch.sigmoid(x)


def _ignoring_the_gradient(x):
    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * torch.sigmoid(x)

        @staticmethod
        def backward(ctx, gradient):
            x, = ctx.saved_tensors
            return _s(x) * (1 + x * (1 - _s(x)))

    return Swish.apply(x)


SWISH = (
    Mistake(_swish(_s), (
        "The derivative of a product has two parts. x stands outside the logistic function *and* inside it: "
        "s + x · s · (1 − s).")),
    Mistake(_swish(lambda x: x * _s(x) * (1 - _s(x))), (
        "The derivative of a product has two parts: that of x itself, s, is missing.")),
    Mistake(_swish(lambda x: _s(x) * (1 + x * (1 + _s(x)))), "A sign: the logistic function's derivative is s · (1 − s)."),
    Mistake(_swish(lambda x: _s(x) * (1 - x * (1 - _s(x)))), "A sign: s · (1 **+** x · (1 − s))."),
    Mistake(_swish(lambda x: torch.ones_like(x)), "The gradient is passed on as it came: it has to be multiplied by the "
                                                  "derivative."),
    Mistake(_ignoring_the_gradient, (
        "`backward` returns the derivative alone: multiply it by the gradient that comes in.")),
    Mistake(_swish(lambda x: (_s(x) * (1 + x * (1 - _s(x)))).detach()), (
        "The first derivative is right, and the second one silently wrong: what `backward` computes from `x` was cut off "
        "from "
        "it. Compute it from `ctx.saved_tensors` with autograd on, or say that there is none: "
        "`@torch.autograd.function.once_differentiable` above `backward`.")),
    Mistake(_swish(lambda x: _s(x).detach() * (1 + x * (1 - _s(x).detach()))), (
        "The first derivative is right, and the second one silently wrong: the value that `forward` kept of the logistic "
        "function has no history. Keep `x` alone, and compute it again in `backward`.")),
    Mistake(lambda x: F.gelu(x), "That is GELU: x times the share of a normal distribution. Here it is x · sigmoid(x)."),
    Mistake(lambda x: torch.sigmoid(x) + 0 * x, "The factor x is missing."),
    Mistake(lambda x: F.hardswish(x), "Hard swish is an approximation with corners."),
    Mistake(lambda x: F.mish(x), "That is Mish: x · tanh(softplus(x))."),
    Mistake(lambda x: F.silu(x).detach(), "No gradient comes back: was something detached?"),
)
