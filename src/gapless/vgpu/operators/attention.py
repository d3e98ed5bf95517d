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

FLASH, CUDNN, EFFICIENT = "flash", "cudnn", "efficient"
LARGEST_HEAD, LARGEST_CUDNN_HEAD = 256, 128  # numbers a head: FlashAttention and cuDNN take no more

COMPOSITE_HANDLED.add("scaled_dot_product_attention")


def _values(query, key, value, mask, dropout, causal, scale, grouped):
    # The program's choice of kernels (``sdpa_kernel``) is for the card: the CPU has not all of them.
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        return _func(query, key, value, mask, dropout, causal, scale=scale, enable_gqa=grouped)


class _Attention(torch.autograd.Function):
    """Fused attention. What it keeps besides its operands: the output and a sum for each row."""

    @staticmethod
    def forward(ctx, query, key, value, mask, dropout, causal, scale, grouped, efficient):
        ctx.set_materialize_grads(False)
        wanted = ctx.needs_input_grad[:3]
        inner_mask = None if mask is None else mask.within
        begin("aten::_scaled_dot_product_attention")
        try:
            leaves = [t.within.detach().requires_grad_(want) for t, want in zip((query, key, value), wanted)]
            graph = Graph(_values, (*leaves, inner_mask, dropout, causal, scale, grouped), leaves)
            inner = graph.out
            ctx.efficient = efficient
            made, bias_bytes = hardware.bias(inner_mask, query, efficient)
            forward, ctx.backward_kernels = hardware.kernels(*leaves, inner_mask, causal, efficient)
            biases = [_bytes(bias_bytes, inner)] if bias_bytes else []
            launch_all(made + forward)
            out = wrap(_laid_out(inner.detach(), query, efficient), state.memory)
            used((query, key, value, mask), out)
            if state.tape is not None:
                state.tape.repeats(graph.repeated([out.within]), [out])
            if any(wanted):
                ctx.graph = graph
                sums = _bytes(4 * inner.numel() // max(inner.shape[-1], 1), inner)
                ctx.save_for_backward(query, key, value, out, sums, *biases)  # for their bytes: freed when CUDA's would be
            return out
        finally:
            end()

    @staticmethod
    @eager
    @torch.autograd.function.once_differentiable
    @of_the_device
    def backward(ctx, grad):
        if grad is None:
            return (None,) * 9
        saved = ctx.saved_tensors  # raises PyTorch's own error where the graph is gone
        begin("aten::_scaled_dot_product_attention_backward")
        try:
            keep = torch._C._autograd._get_current_graph_task_keep_graph()
            found = ctx.graph.gradients((grad.within,), keep)
            copied = hardware.laid_out(grad) if ctx.efficient else []
            temporary_bytes = ctx.efficient * hardware.workspace_bytes(*saved[:2]) + (grad.nbytes if copied else 0)
            temporary = state.memory.allocate(temporary_bytes) if temporary_bytes else None
            launch_all(copied + ctx.backward_kernels)
            del temporary
            results = [None if each is None else wrap(_laid_out(each, like, ctx.efficient), state.memory)
                       for each, like in zip(found, saved)]
            used((saved, grad), results)
            if state.tape is not None:
                inner = [None if each is None else each.within for each in results]
                state.tape.repeats(ctx.graph.repeated_gradients((grad.within,), inner), results)
            if not keep:
                ctx.graph = None
            return (*results, None, None, None, None, None, None)
        finally:
            end()


def _bytes(count: int, like: torch.Tensor) -> VirtualTensor:
    """So many of the device's memory, whose values nobody asks for."""
    return wrap(torch.empty(count, dtype=torch.uint8, device=like.device), state.memory)


def _laid_out(result: torch.Tensor, like: VirtualTensor, efficient: bool) -> torch.Tensor:
    """An output or a gradient as the kernels write it: heads within rows by the memory-efficient ones, else as the operand
    lies."""
    if efficient or result.shape != like.shape:
        return result.transpose(1, 2).contiguous().transpose(1, 2)
    laid = torch.empty_like(like.within)
    return result if laid.stride() == result.stride() else laid.copy_(result)


def _kernels_of(query, key, value, mask) -> str:
    """Which fused kernels CUDA would take, or "" where PyTorch takes attention apart. cuDNN's come first on Hopper, which is
    modelled as FlashAttention's (seen in bfloat16 on an H100, torch 2.11)."""
    cuda = torch.backends.cuda
    tensors = [t for t in (query, key, value, mask) if t is not None]
    if not all(type(t) is VirtualTensor for t in tensors) or not all(t.dim() == 4 and t.numel() for t in tensors[:3]):
        return ""
    if mask is not None and mask.requires_grad:
        return ""
    half = query.dtype in (torch.float16, torch.bfloat16)
    card, width = state.card.compute_capability, query.shape[-1]
    if half and width == value.shape[-1]:
        if mask is None and width <= LARGEST_HEAD and card >= (8, 0) and cuda.flash_sdp_enabled():
            return FLASH
        if card == (9, 0) and width <= LARGEST_CUDNN_HEAD and width % 8 == 0 and cuda.cudnn_sdp_enabled():
            return CUDNN
    if (half or query.dtype == torch.float32) and cuda.mem_efficient_sdp_enabled() and query.shape[1] == key.shape[1]:
        return EFFICIENT
    return ""


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
    kernels = _kernels_of(query, key, value, attn_mask)
    if kernels:
        if state.link is not None:
            return state.link.fused(_func, (query, key, value, attn_mask, dropout_p, is_causal),
                                    {"scale": scale, "enable_gqa": enable_gqa})
        return _Attention.apply(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa,
                                kernels == EFFICIENT)
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
