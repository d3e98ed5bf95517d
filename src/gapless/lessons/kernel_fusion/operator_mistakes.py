"""Lesson 07: operators put together wrongly, and what to say of each."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ...course.mistakes import Mistake

# -- attention --------------------------------------------------------------------------------------


def _attend(q, k, v, mask, scale=None, **options):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, **options)


ATTENTION = (
    Mistake(lambda q, k, v, mask: _attend(q, k, v, ~mask), (
        "The mask is the wrong way round: True means that a key takes part, here and in `attn_mask`.")),
    Mistake(lambda q, k, v, mask: _attend(q, k, v, None), "The mask is not used: every query looks at every key."),
    Mistake(lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, is_causal=True), (
        "`is_causal=True` is one mask of many: pass the one that was given.")),
    Mistake(lambda q, k, v, mask: _attend(q, k, v, mask.to(q.dtype)), (
        "A mask that is not of bool is *added* to the scores: zeros and ones shift them, and forbid nothing. Leave it "
        "bool.")),
    Mistake(lambda q, k, v, mask: _attend(q, k, v, mask, scale=1.0), "The scores are to be divided by √D."),
    Mistake(lambda q, k, v, mask: _attend(q / q.shape[-1] ** 0.5, k, v, mask), (
        "The scores are divided by √D twice: `F.scaled_dot_product_attention` does it by itself.")),
    Mistake(lambda q, k, v, mask: _attend(q, k, v, mask.transpose(-2, -1)), (
        "The mask was turned: its rows are queries, its columns keys.")),
    Mistake(lambda q, k, v, mask: _attend(k, q, v, mask), "Queries and keys have changed places."),
    Mistake(lambda q, k, v, mask: _attend(q, v, k, mask), "Keys and values have changed places."),
    Mistake(lambda q, k, v, mask: torch.softmax((q @ k.mT / q.shape[-1] ** 0.5) * mask, -1) @ v, (
        "A score of zero is a score like any other. What may not be looked at needs minus infinity before the softmax.")),
    Mistake(lambda q, k, v, mask: (torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) * mask) @ v, (
        "Masked behind the softmax the shares of a row do not add up to 1 any more: mask the scores before it.")),
    Mistake(lambda q, k, v, mask: _attend(q, k, v, mask).detach(), "No gradient comes back: was something detached?"),
)

# -- head_loss --------------------------------------------------------------------------------------


def _head(x, residual, gate, weight, projection, target, *, value=0.5, eps=1e-6, norm=None, after=lambda h: h, **options):
    h = torch.addcmul(residual, gate, x, value=value)
    h = F.rms_norm(h, h.shape[-1:], weight, eps) if norm is None else norm(h, weight)
    return F.cross_entropy(after(h @ projection.T), target, **options)


def _layer_norm(h, weight):
    return F.layer_norm(h, h.shape[-1:], weight, eps=1e-6)


def _counted_all(*args, **inputs):
    return _head(*args, **inputs, reduction="sum") / len(args[-1] if args else inputs["target"])


HEAD_LOSS = (
    Mistake(lambda *args, **inputs: _head(*args, **inputs, value=1.0), "The factor 0.5 of gate · x is missing: "
                                                                       "`value=0.5`."),
    Mistake(lambda x, residual, gate, weight, projection, target: _head(gate, x, residual, weight, projection, target), (
        "`torch.addcmul(a, b, c)` is a + b · c: the residual comes first.")),
    Mistake(lambda *args, **inputs: _head(*args, **inputs, norm=_layer_norm), (
        "A layer norm subtracts the mean first; this norm only divides: `F.rms_norm`.")),
    Mistake(lambda *args, **inputs: _head(*args, **inputs, norm=lambda h, weight: F.normalize(h, dim=-1) * weight), (
        "`F.normalize` divides by the root of the *sum* of squares; here it is that of their mean.")),
    Mistake(lambda *args, **inputs: _head(*args, **inputs, norm=lambda h, weight: F.rms_norm(h, h.shape[-1:], None, 1e-6)), (
        "The norm's `weight` is missing.")),
    Mistake(lambda *args, **inputs: _head(*args, **inputs, eps=None), (
        "`F.rms_norm` takes another eps unless told otherwise: here it is 1e-6, which shows where a row is near zero.")),
    Mistake(lambda *args, **inputs: _head(*args, **inputs, eps=1e-5), "Here eps is 1e-6: it shows where a row is near "
                                                                      "zero."),
    Mistake(lambda *args, **inputs: _head(*args, **inputs, after=lambda logits: torch.softmax(logits, -1)), (
        "`F.cross_entropy` takes logits: it has the softmax in it.")),
    Mistake(lambda *args, **inputs: _head(*args, **inputs, reduction="sum"), "The mean is wanted, not the sum."),
    Mistake(_counted_all, "The mean is over the targets that count: those of -100 are no rows of it."),
    Mistake(lambda *args, **inputs: _head(*args, **inputs, label_smoothing=0.1), "No label smoothing is asked for."),
    Mistake(lambda *args, **inputs: _head(*args, **inputs).detach(), "No gradient comes back: was something detached?"),
)

# -- swish ------------------------------------------------------------------------------------------


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
