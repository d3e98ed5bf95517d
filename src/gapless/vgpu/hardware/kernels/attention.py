"""What CUDA runs for fused attention: one kernel forward, and backward the sums over the output and one more.

FLOPs: two products forward and five backward, half of them where the mask is causal (Dao, FlashAttention-2, 2023, section
4.1).
"""

from __future__ import annotations

from ..times import geometry, precision, tensor_cores
from . import costs
from .costs import Kernel

BACKWARD_PRODUCTS, FORWARD_PRODUCTS = 5, 2


def kernels(query, key, value, mask, causal: bool) -> tuple[list[Kernel], list[Kernel]]:
    """Forward and backward, of tensors shaped batch × heads × length × numbers a head."""
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

    return ([kernel("fmha_forward_kernel", FORWARD_PRODUCTS, read + out_bytes + sums)],
            [Kernel("fmha_backward_sums_kernel", "reduction", 2 * out_bytes + sums, work=rows),
             kernel("fmha_backward_kernel", BACKWARD_PRODUCTS, read + 2 * out_bytes + 2 * sums + gradients)])
