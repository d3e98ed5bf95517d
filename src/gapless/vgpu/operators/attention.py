"""Scaled dot product attention: one fused kernel forward, and backward the sums over the output and one more kernel, as
on CUDA; values are the CPU's.

PyTorch takes a device without fused kernels through two products and a softmax whose matrix of scores goes to memory and
back. So the operator is caught where autograd begins, if CUDA would take FlashAttention or the memory-efficient
kernel (ATen, ``transformers/cuda/sdp_utils.cpp``). Not modelled: how cuDNN's kernels differ from
FlashAttention's, nested tensors.
"""

# mypy: disable-error-code="call-arg"
# PyTorch's stubs lack what is used here.
from __future__ import annotations

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..core.dispatch import COMPOSITE_HANDLED, begin, end, handles, launch_all, of_the_device, used
from ..core.inner_autograd import Graph
from ..core.tensor import VirtualTensor, wrap
from ..hardware.kernels import attention as hardware
from ..process.eager import eager
from ..process.state import state
from . import autocast

_func = torch.ops.aten.scaled_dot_product_attention.default

_HALF = (torch.float16, torch.bfloat16)
LARGEST_HEAD = 256  # numbers a head: FlashAttention takes no more

COMPOSITE_HANDLED.add("scaled_dot_product_attention")


def _values(query, key, value, mask, dropout, causal, scale, grouped):
    # The program's choice of kernels (``sdpa_kernel``) is for the card: the CPU has not all of them.
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        return _func(query, key, value, mask, dropout, causal, scale=scale, enable_gqa=grouped)


class _Attention(torch.autograd.Function):
    """Fused attention. What it keeps besides its operands: the output and a sum for each row."""

    @staticmethod
    def forward(ctx, query, key, value, mask, dropout, causal, scale, grouped):
        ctx.set_materialize_grads(False)
        wanted = ctx.needs_input_grad[:3]
        inner_mask = None if mask is None else mask.within
        begin("aten::_scaled_dot_product_attention")
        try:
            leaves = [t.within.detach().requires_grad_(want) for t, want in zip((query, key, value), wanted)]
            graph = Graph(_values, (*leaves, inner_mask, dropout, causal, scale, grouped), leaves)
            inner = graph.out
            ctx.efficient = _is_efficient(query, mask)
            made, bias_bytes = hardware.bias(inner_mask, query, ctx.efficient)
            forward, ctx.backward_kernels = hardware.kernels(*leaves, inner_mask, causal, ctx.efficient)
            bias = state.memory.allocate(bias_bytes) if bias_bytes else None
            launch_all(made + forward)
            out = wrap(inner.detach(), state.memory)
            used((query, key, value, mask), out)
            if state.tape is not None:
                state.tape.repeats(graph.repeated([out.within]), [out])
            if any(wanted):
                ctx.graph, ctx.bias = graph, bias
                ctx.sums = state.memory.allocate(4 * inner.numel() // max(inner.shape[-1], 1))
                ctx.save_for_backward(query, key, value, out)  # for their bytes: freed when CUDA's would be
            return out
        finally:
            end()

    @staticmethod
    @eager
    @torch.autograd.function.once_differentiable
    @of_the_device
    def backward(ctx, grad):
        if grad is None:
            return (None,) * 8
        saved = ctx.saved_tensors  # raises PyTorch's own error where the graph is gone
        begin("aten::_scaled_dot_product_attention_backward")
        try:
            keep = torch._C._autograd._get_current_graph_task_keep_graph()
            found = ctx.graph.gradients((grad.within,), keep)
            launch_all((hardware.laid_out(grad) if ctx.efficient else []) + ctx.backward_kernels)
            results = [None if each is None else wrap(_laid_out(each, like, ctx.efficient), state.memory)
                       for each, like in zip(found, saved)]
            used((saved, grad), results)
            if state.tape is not None:
                inner = [None if each is None else each.within for each in results]
                state.tape.repeats(ctx.graph.repeated_gradients((grad.within,), inner), results)
            if not keep:
                ctx.graph = ctx.sums = ctx.bias = None
            return (*results, None, None, None, None, None)
        finally:
            end()


def _laid_out(gradient: torch.Tensor, like: VirtualTensor, efficient: bool) -> torch.Tensor:
    """As the kernels write it: heads within rows by the memory-efficient ones, else as the operand lies."""
    if efficient:
        return gradient.transpose(1, 2).contiguous().transpose(1, 2)
    laid = torch.empty_like(like.within)
    return gradient if laid.stride() == gradient.stride() else laid.copy_(gradient)


def _fused(query, key, value, mask) -> bool:
    """Whether CUDA would take a fused kernel. Anything else PyTorch takes apart."""
    cuda = torch.backends.cuda
    tensors = [t for t in (query, key, value, mask) if t is not None]
    if not all(type(t) is VirtualTensor for t in tensors) or not all(t.dim() == 4 and t.numel() for t in tensors[:3]):
        return False
    if mask is not None and mask.requires_grad:
        return False
    half = query.dtype in _HALF
    flash = (half and mask is None and query.shape[-1] == value.shape[-1] <= LARGEST_HEAD
             and state.card.compute_capability >= (8, 0) and cuda.flash_sdp_enabled())
    return flash or ((half or query.dtype == torch.float32) and cuda.mem_efficient_sdp_enabled()
                     and query.shape[1] == key.shape[1])


def _is_efficient(query, mask) -> bool:
    """Whether the fused kernels are the memory-efficient ones. In half precision others come first: FlashAttention without a
    mask, and cuDNN's with one too on Hopper, which are modelled alike."""
    card = state.card.compute_capability
    return query.dtype not in _HALF or card < (8, 0) or (mask is not None and card < (9, 0))


def _whole_heads(query, key, value) -> bool:
    """Whether these are DTensors of which each rank has some samples or heads, or all of them."""
    places = [getattr(tensor, "placements", None) for tensor in (query, key, value)]
    return (places[0] is not None and places[0] == places[1] == places[2] and query.dim() == 4
            and all(place.is_replicate() or place.is_shard(0) or place.is_shard(1) for place in places[0]))


@of_the_device
@eager
def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    """The operator, fused or taken apart."""
    if torch.is_autocast_enabled("vgpu"):
        query, key, value, attn_mask = autocast.cast((query, key, value, attn_mask), autocast.lower_dtype())
    if _fused(query, key, value, attn_mask):
        if state.link is not None:
            return state.link.fused(_func, (query, key, value, attn_mask, dropout_p, is_causal),
                                    {"scale": scale, "enable_gqa": enable_gqa})
        return _Attention.apply(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if attn_mask is None and _whole_heads(query, key, value):
        # As PyTorch's rules for the fused operators do: each rank its own heads.
        out = attention(query.to_local(), key.to_local(), value.to_local(), None, dropout_p, is_causal, scale=scale,
                        enable_gqa=enable_gqa)
        shape = torch.Size((*query.shape[:-1], value.shape[-1]))
        return type(query).from_local(out, query.device_mesh, query.placements, run_check=False, shape=shape,
                                      stride=out.new_empty(shape, device="meta").stride())
    return _func.decompose(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


@handles("scaled_dot_product_attention")
def _without_autograd(operator, args, kwargs):
    return attention(*args, **kwargs)


def install(library: torch.library.Library) -> None:
    """Catch the operator where autograd begins."""
    library.impl(_func, attention, "AutogradPrivateUse1")
