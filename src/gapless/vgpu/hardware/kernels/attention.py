"""What CUDA runs for fused attention: one kernel forward, and backward the sums over the output and one more. Around the
memory-efficient kernels PyTorch runs some of its own: in float32 :func:`bias`, :func:`kernels` and :func:`laid_out` give
what an H100 ran (``records/measured/h100_attention.json``). In half precision the backward kernel makes the sums itself
(ATen, transformers/cuda/mem_eff_attention/kernel_backward.h, ``kKernelComputesDelta``). Large heads on a V100 are an
exception that is not modelled.

FLOPs: two products forward and five backward, half of them where the mask is causal (Dao, FlashAttention-2, 2023, section
4.1).
"""

from __future__ import annotations

import torch

from ..times import geometry, precision, tensor_cores
from . import costs
from .costs import Kernel

BACKWARD_PRODUCTS, FORWARD_PRODUCTS = 5, 2
_KEYS, _ENOUGH_BLOCKS = 64, 256  # of a block; which fill the card without a second block of keys
_ALIGNED = 8  # of a bias' rows for the memory-efficient kernels; else it is padded (ATen, transformers/attention.cpp)


def bias(mask, query, efficient: bool) -> tuple[list[Kernel], int]:
    """What makes the bias of a boolean mask, and pads it for the memory-efficient kernels; and the bytes of the result,
    which the backward pass needs too. Nothing where a mask is used as it is."""
    made, nbytes = [], 0
    if mask is not None and mask.dtype == torch.bool:
        nbytes = mask.numel() * query.element_size()
        made += [Kernel("fill_kernel", "pointwise", query.element_size())] * 2  # 0 and minus infinity
        made.append(Kernel("pointwise_kernel(where)", "pointwise", mask.numel() + nbytes))
    if mask is not None and efficient and mask.shape[-1] % _ALIGNED:
        whole = mask.numel() * query.element_size()
        nbytes = whole // mask.shape[-1] * (mask.shape[-1] + _ALIGNED - mask.shape[-1] % _ALIGNED)
        made += [Kernel("fill_kernel", "pointwise", nbytes),
                 Kernel("pointwise_kernel(constant_pad_nd)", "pointwise", 2 * whole)]
    return made, nbytes


def kernels(query, key, value, mask, causal: bool, efficient: bool = False) -> tuple[list[Kernel], list[Kernel]]:
    """Forward and backward, of tensors shaped batch × heads × length × numbers a head. ``efficient``: by the
    memory-efficient kernels."""
    dtype = precision.math_dtype(query, "matmul")
    batch, heads, length, _ = query.shape
    product = 2.0 * batch * heads * length * key.shape[-2] * (0.5 if causal else 1.0)
    out_bytes = query.numel() // query.shape[-1] * value.shape[-1] * query.element_size()
    sums = batch * heads * length * 4  # float32, the logarithm of each row's sum
    read = sum(costs.nbytes(t) for t in (query, key, value, mask) if t is not None)
    flops = product * (query.shape[-1] + value.shape[-1]) / 2
    gradients = sum(costs.nbytes(t) for t in (query, key, value))
    work, rows = (length, 1, batch * heads), (batch * heads * length, value.shape[-1])
    blocks = batch * heads * -(-length // geometry.ATTENTION_ROWS)

    def kernel(name: str, products: int, moved: float) -> Kernel:
        problem = tensor_cores.Attention(products * flops, moved, mask is not None, max(blocks, 1))
        return Kernel(name, "attention", moved, products * flops, dtype, work=work, problem=problem)

    summed = []
    if not efficient:
        summed.append(Kernel("fmha_backward_sums_kernel", "reduction", 2 * out_bytes + sums, work=rows))
    elif query.dtype == torch.float32:
        summed += [Kernel("pointwise_kernel(mul)", "pointwise", 3 * out_bytes),
                   Kernel("reduction_kernel(sum)", "reduction", out_bytes + sums, work=rows),
                   Kernel("pointwise_kernel(clone)", "pointwise", 2 * sums)]
    if efficient and workspace_bytes(query, key):
        summed.append(Kernel("fill_kernel", "pointwise", workspace_bytes(query, key)))
    return ([kernel("fmha_forward_kernel", FORWARD_PRODUCTS, read + out_bytes + sums)],
            [*summed, kernel("fmha_backward_kernel", BACKWARD_PRODUCTS, read + 2 * out_bytes + 2 * sums + gradients)])


def workspace_bytes(query, key) -> int:
    """In which the memory-efficient backward pass adds up the queries' gradients, if several blocks of keys share them."""
    batch, heads = query.shape[:2]
    split = key.shape[-2] > (2 if batch * heads >= _ENOUGH_BLOCKS else 1) * _KEYS
    return 4 * query.numel() if split else 0


def laid_out(grad) -> list[Kernel]:
    """The memory-efficient backward pass copies a gradient that is not in the output's layout, heads within rows."""
    if grad.transpose(1, 2).is_contiguous():
        return []
    return [Kernel("pointwise_kernel(clone)", "pointwise", 2 * costs.nbytes(grad))]
