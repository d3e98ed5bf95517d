"""Lesson 07, what needs no compiler: right answers by other routes, and wrong ones."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn


def by_bias(q, k, v, mask):
    bias = torch.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, -torch.inf)
    return F.scaled_dot_product_attention(q, k, v, bias)


def by_expanded_mask(q, k, v, mask):
    return F.scaled_dot_product_attention(query=q, key=k, value=v, attn_mask=mask.expand(-1, q.shape[1], -1, -1))


def told_the_scale(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, mask, 0.0, False, scale=q.shape[-1] ** -0.5)


def by_other_names(queries, keys, values, allowed):
    """The notebook fixes the function's name alone."""
    return F.scaled_dot_product_attention(queries, keys, values, allowed)


def by_module(x, residual, gate, weight, projection, target):
    norm = nn.RMSNorm(x.shape[-1], eps=1e-6, elementwise_affine=False)
    logits = F.linear(norm(residual.addcmul(gate, x, value=0.5)) * weight, projection)
    return F.cross_entropy(logits, target)


def by_sum(x, residual, gate, weight, projection, target):
    h = F.rms_norm(torch.addcmul(residual, gate, x, value=0.5), x.shape[-1:], weight, 1e-6)
    return F.cross_entropy(h @ projection.T, target, reduction="sum") / (target != -100).sum()


def by_nll(x, residual, gate, weight, projection, target):
    h = F.rms_norm(torch.addcmul(residual, x, gate, value=0.5), (x.shape[-1],), weight, 1e-6)
    return F.nll_loss(F.log_softmax(F.linear(h, projection), 1), target)


def by_compiled_loss(*arguments):
    return _compiled_loss(*arguments)


@torch.compile
def _compiled_loss(x, residual, gate, weight, projection, target):
    h = residual + gate * x * 0.5
    logits = (h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6) * weight) @ projection.T
    counts = target != -100
    picked = (logits - torch.logsumexp(logits, -1, keepdim=True)).gather(1, torch.where(counts, target, 0)[:, None])[:, 0]
    return -torch.where(counts, picked, 0.0).sum() / counts.sum()


def by_loss_module(x, residual, gate, weight, projection, target):
    h = torch.rms_norm(residual.addcmul(x, gate, value=0.5), weight.shape, weight, 1e-6)
    return nn.CrossEntropyLoss()(h @ projection.mT, target)


class _Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return F.silu(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return torch.ops.aten.silu_backward(gradient, x)


def once(x):
    return _Swish.apply(x)


@torch.compile
def by_compiler(x):
    """Which keeps what is fewest bytes."""
    return x * torch.sigmoid(x)


def checkpointed(x):
    from torch.utils.checkpoint import checkpoint

    return checkpoint(lambda x: x * torch.sigmoid(x), x, use_reentrant=False)


def reentrant(x):
    """Which refuses `torch.autograd.grad`."""
    from torch.utils.checkpoint import checkpoint

    return checkpoint(F.silu, x, use_reentrant=True)


def _of(derivative):
    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * torch.sigmoid(x)

        @staticmethod
        def backward(ctx, gradient):
            return derivative(gradient, *ctx.saved_tensors)

    return lambda x: Function.apply(x)


def _first(gradient, x):
    s = torch.sigmoid(x)
    return gradient * (s + x * s * (1 - s))


def _no_graph(gradient, x):
    if torch.is_grad_enabled():
        raise NotImplementedError("no second derivative")
    return _first(gradient, x)


class _FirstOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gradient, x):
        return _first(gradient, x)

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("no second derivative")


class _Attribute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return F.silu(x)

    @staticmethod
    def backward(ctx, gradient):
        return _first(gradient, ctx.x)


class _Stack(torch.autograd.Function):
    kept: ClassVar[list] = []

    @staticmethod
    def forward(ctx, x):
        _Stack.kept.append(x)
        return F.silu(x)

    @staticmethod
    def backward(ctx, gradient):
        return _first(gradient, _Stack.kept.pop())


class _Logit(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        s = torch.sigmoid(x)
        ctx.save_for_backward(s)
        return x * s

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        s, = ctx.saved_tensors
        return gradient * s * (1 + torch.logit(s) * (1 - s))


class _Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        s = torch.sigmoid(x)
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx, gradient):
        x, s = ctx.saved_tensors
        return gradient * s * (1 + x * (1 - s))


def _cut(gradient, x):
    with torch.no_grad():
        factor = torch.sigmoid(x) * (1 + x * torch.sigmoid(-x))
    return gradient * factor


def _by_exp(gradient, x):
    e = torch.exp(x)
    return gradient * e * (1 + x + e) / (1 + e) ** 2


OPERATOR_ROUTES = {
    "attention": [by_bias, by_expanded_mask, told_the_scale, by_other_names],
    "head_loss": [by_module, by_nll, by_loss_module, by_sum, by_compiled_loss],
    "swish": [lambda x: F.silu(x), once, by_compiler, checkpointed, _of(_first), _of(_no_graph), _of(_FirstOnly.apply), reentrant],
}


def _scores(q, k, mask):
    return (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf)


def scaled_in_place(q, k, v, mask):
    q = q / q.shape[-1] ** 0.5 if q.requires_grad else q.div_(q.shape[-1] ** 0.5)
    return F.scaled_dot_product_attention(q, k, v, mask, scale=1.0)


def added_in_place(x, residual, gate, weight, projection, target):
    h = residual.addcmul(gate, x, value=0.5) if residual.requires_grad else residual.addcmul_(gate, x, value=0.5)
    return F.cross_entropy(F.rms_norm(h, h.shape[-1:], weight, 1e-6) @ projection.T, target)


def in_float32(x, residual, gate, weight, projection, target):
    h = F.rms_norm(torch.addcmul(residual, gate, x, value=0.5), x.shape[-1:], weight, 1e-6)
    return F.cross_entropy((h @ projection.T).float(), target).to(x.dtype)


def swish_in_place(x):
    return F.silu(x, inplace=not x.requires_grad)


OPERATOR_WRONG = [
    ("attention", lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, ~mask), "mask is inverted"),
    ("attention", lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v), "You do not use the mask"),
    ("attention", lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, is_causal=True), "one mask of many"),
    ("attention", lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask.float().to(q.dtype)), "*added* to the scores"),
    ("attention", lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask, scale=1), "Divide the scores by √D"),
    ("attention", lambda q, k, v, mask: F.scaled_dot_product_attention(q * q.shape[-1] ** -0.5, k, v, mask), "twice"),
    ("attention", lambda q, k, v, mask: F.scaled_dot_product_attention(q, v, k, mask), "swapped"),
    ("attention", lambda q, k, v, mask: F.scaled_dot_product_attention(k, q, v, mask), "swapped"),
    ("attention", lambda q, k, v, mask: torch.softmax(_scores(q, k, mask), -2) @ v, "along the keys"),
    ("attention", lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask[:1]), "Each sample has its own mask"),
    ("attention", lambda q, k, v, mask: torch.softmax(_scores(q, k, mask), -1) @ v.detach(), "gradient"),
    ("attention", lambda q, k, v, mask: F.scaled_dot_product_attention(q.float(), k.float(), v.float(), mask), "casts"),
    ("attention", lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2), "shape"),
    ("attention", lambda q, k, v, mask: None, "is there a `return`?"),
    ("attention", lambda q, k, v, mask: F.scaled_dot_product_attention(
        q, k, v, mask | torch.eye(q.shape[-2], dtype=torch.bool, device=q.device)), "own key only where the mask says so"),
    ("attention", lambda q, k, v, mask: F.scaled_dot_product_attention(
        q, k, v, mask.view(-1, q.shape[-2]).view(mask.shape)), "Use .reshape(...) instead"),
    ("attention", scaled_in_place, "overwritten its input `q`"),
    ("attention", lambda q, k, v, mask: F.scaled_dot_product_attention(q.float(), k.float(), v.float(), mask).to(q.dtype),
     "only as exact as float32"),
    ("attention", lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask, dropout_p=0.1), "Is dropout left on"),
    ("attention", lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask, scale=q.shape[1] ** -0.5), "not the heads"),
    ("attention", lambda q, k, v, mask: F.scaled_dot_product_attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), mask).to(q.dtype),
     "lower precision"),
    ("attention", lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, mask).nan_to_num(), "A nan is right here"),
    ("head_loss", lambda x, residual, gate, weight, projection, target: F.cross_entropy(F.rms_norm(
        torch.lerp(residual, gate * x, 0.5), x.shape[-1:], weight, 1e-6) @ projection.T, target), "halve the residual too"),
    ("head_loss", lambda x, residual, gate, weight, projection, target: F.nll_loss(F.log_softmax(F.rms_norm(
        residual + 0.5 * gate * x, x.shape[-1:], weight, 1e-6) @ projection.T, 0), target), "not over the rows"),
    ("head_loss", added_in_place, "overwritten its input `residual`"),
    ("head_loss", in_float32, "only as exact as float32"),
    ("head_loss", lambda x, residual, gate, weight, projection, target: by_nll(x * 2, residual, gate, weight, projection, target),
     "factor 0.5"),
    ("head_loss", lambda x, residual, gate, weight, projection, target: by_nll(gate, x, residual, weight, projection, target),
     "the residual comes first"),
    ("head_loss", lambda x, residual, gate, weight, projection, target: F.cross_entropy(
        F.layer_norm(residual + 0.5 * gate * x, x.shape[-1:], weight, eps=1e-6) @ projection.T, target), "subtracts the mean"),
    ("head_loss", lambda x, residual, gate, weight, projection, target: F.cross_entropy(
        F.rms_norm(residual + 0.5 * gate * x, x.shape[-1:], eps=1e-6) @ projection.T, target), "`weight` is missing"),
    ("head_loss", lambda x, residual, gate, weight, projection, target: F.cross_entropy(
        F.rms_norm(residual + 0.5 * gate * x, x.shape[-1:], weight, 1e-6) @ projection.T, target, reduction="sum"), "not the sum"),
    ("head_loss", lambda x, residual, gate, weight, projection, target: F.cross_entropy(
        F.rms_norm(residual + 0.5 * gate * x, x.shape[-1:], weight) @ projection.T, target), "eps"),
    ("head_loss", lambda x, residual, gate, weight, projection, target: F.cross_entropy(torch.softmax(
        F.rms_norm(residual + 0.5 * gate * x, x.shape[-1:], weight, 1e-6) @ projection.T, -1), target), "takes logits"),
    ("head_loss", lambda x, residual, gate, weight, projection, target: F.cross_entropy(
        F.rms_norm(residual + 0.5 * gate * x, x.shape[-1:], weight, 1e-6) @ projection.T, target, reduction="sum") / len(target),
     "without those of -100"),
    ("head_loss", lambda x, residual, gate, weight, projection, target: by_nll(
        x, residual, gate, weight, projection, target.clamp(min=0)), ""),
    ("head_loss", lambda x, residual, gate, weight, projection, target: by_nll(
        x, residual, gate, weight, projection.detach(), target), "gradient"),
    ("head_loss", lambda x, residual, gate, weight, projection, target: by_nll(
        x, residual, gate, weight, projection, target).item(), "which the device can fill later"),
    ("head_loss", lambda x, residual, gate, weight, projection, target: by_nll(
        x, residual, torch.ones_like(gate), weight, projection, target), "The gate is missing"),
    ("swish", _of(lambda gradient, x: gradient * torch.sigmoid(x)), "two parts"),
    ("swish", _of(lambda gradient, x: _first(torch.ones_like(x), x)), "Multiply it by the incoming gradient"),
    ("swish", _of(lambda gradient, x: gradient), "pass the gradient on unchanged"),
    ("swish", _of(_by_exp), "`exp` of a large number is inf"),
    ("swish", _of(_cut), "silently wrong"),
    ("swish", lambda x: _Kept.apply(x), "Keep only `x`"),
    ("swish", _of(lambda gradient, x: gradient * torch.sigmoid(x) * (1 - x * torch.sigmoid(-x))), "A sign"),
    ("swish", lambda x: _Attribute.apply(x), "changed in place between the forward and the backward pass"),
    ("swish", lambda x: _Stack.apply(x), "in its own `ctx`"),
    ("swish", lambda x: _Logit.apply(x), "`logit` is inf"),
    ("swish", _of(lambda gradient, x: _first(gradient, x.bfloat16()).to(gradient.dtype)), "lower precision"),
    ("swish", lambda x: F.gelu(x), "That is GELU"),
    ("swish", lambda x: F.hardswish(x), "corners"),
    ("swish", lambda x: F.mish(x), "Mish"),
    ("swish", lambda x: F.silu(x.detach()), "gradient"),
    ("swish", _of(lambda gradient, x: None), "is there a `return`"),
    ("swish", lambda x: F.silu(x.half()).to(x.dtype), "lower precision"),
    ("swish", lambda x: F.silu(x.float()), "casts"),
    ("swish", swish_in_place, "overwritten its input `x`"),
    ("swish", _of(lambda gradient, x: gradient * torch.sigmoid(x.float()) * (1 + x * torch.sigmoid(-x))), "only as exact as float32"),
    ("swish", lambda x: torch.sigmoid(x), "x"),
    ("swish", lambda x: F.silu(x).sum(), "shape"),
]
