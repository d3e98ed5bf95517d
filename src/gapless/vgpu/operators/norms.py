"""Norms that CUDA has as operators of their own: those of ``SyncBatchNorm``, and RMSNorm.

``SyncBatchNorm``, which the CPU lacks, is a batch norm in parts with a collective between them. What each part computes:
ATen, native/cuda/Normalization.cu. Dimension 1 is the channels'; statistics of half precision are in float32. Each is one
kernel.

``torch.nn.functional.rms_norm`` asks for ``_fused_rms_norm``, unless the weight has another dtype or the input is complex or
channels last (ATen, layer_norm.cpp, ``rms_norm_symint``). CUDA has a kernel of its own for it (cuda/layer_norm_kernel.cu, a
layer norm's without the mean); a device that has none gets five kernels and more. The CPU has no backward pass of it: here
that is PyTorch's own decomposition.
"""

# mypy: disable-error-code="operator"
# PyTorch's stubs lack what is used here.
from __future__ import annotations

import torch
from torch._decomp import decomposition_table

from ..core.dispatch import COMPOSITE_HANDLED, dispatch, handles, launch_all, unwrap, wrap_results
from ..hardware.kernels import costs


def _others(x: torch.Tensor) -> list[int]:
    """All dimensions but the channels'."""
    return [dim for dim in range(x.dim()) if dim != 1]


def _along(statistic: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A number a channel, shaped to broadcast with ``x``."""
    return statistic.reshape(1, -1, *[1] * (x.dim() - 2))


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _mean_and_var(x: torch.Tensor):
    x = _wide(x)
    return x.mean(_others(x)), x.var(_others(x), correction=0)


def _stats(x, eps):
    mean, var = _mean_and_var(x)
    return mean, (var + eps).rsqrt()


def _follow(running: torch.Tensor | None, seen: torch.Tensor, momentum: float) -> None:
    if running is not None:
        running.mul_(1 - momentum).add_(seen.to(running.dtype), alpha=momentum)


def _update_stats(x, running_mean, running_var, momentum):
    mean, var = _mean_and_var(x)
    count = x.numel() // x.shape[1]
    _follow(running_mean, mean, momentum)
    _follow(running_var, var * (count / (count - 1)), momentum)
    return mean, var


def _gather_with_counts(x, mean, invstd, running_mean, running_var, momentum, eps, counts):
    """``mean``, ``invstd``: [processes, channels]; ``counts``: [processes]. Of all processes together: mean, invstd."""
    counts = counts.reshape(-1, 1).to(mean.dtype)
    total = counts.sum()
    mean_of_all = (mean * counts).sum(0) / total
    squares = (counts * (invstd.square().reciprocal() - eps + (mean - mean_of_all).square())).sum(0)
    _follow(running_mean, mean_of_all, momentum)
    _follow(running_var, squares / (total - 1), momentum)
    return mean_of_all, (squares / total + eps).rsqrt()


def _gather(x, mean, invstd, running_mean, running_var, momentum, eps, count):
    counts = mean.new_full((mean.shape[0],), count)
    return _gather_with_counts(x, mean, invstd, running_mean, running_var, momentum, eps, counts)


def _elemt(x, weight, bias, mean, invstd, eps):
    out = (_wide(x) - _along(mean, x)) * _along(invstd, x)
    if weight is not None:
        out = out * _along(weight, x)
    if bias is not None:
        out = out + _along(bias, x)
    return out.to(x.dtype)


def _backward_reduce(grad, x, mean, invstd, weight, input_g, weight_g, bias_g):
    wide = _wide(grad)
    sum_dy = wide.sum(_others(x))
    sum_dy_xmu = (wide * (_wide(x) - _along(mean, x))).sum(_others(x))
    dtype = mean.dtype if weight is None else weight.dtype
    return (sum_dy if input_g else None, sum_dy_xmu if input_g else None,
            (sum_dy_xmu * invstd).to(dtype) if weight_g else None, sum_dy.to(dtype) if bias_g else None)


def _backward_elemt(grad, x, mean, invstd, weight, sum_dy, sum_dy_xmu, count):
    total = count.sum()
    scale = invstd if weight is None else invstd * weight
    out = (_wide(grad) - _along(sum_dy / total, x)
           - (_wide(x) - _along(mean, x)) * _along(invstd.square() * sum_dy_xmu / total, x)) * _along(scale, x)
    return out.to(x.dtype)


# Operator → what it computes, the kernel of CUDA, the kernel's kind.
_PARTS = {"batch_norm_stats": (_stats, "batch_norm_collect_statistics_kernel", "reduction"),
          "batch_norm_update_stats": (_update_stats, "batch_norm_collect_statistics_kernel", "reduction"),
          "batch_norm_gather_stats": (_gather, "batch_norm_reduce_statistics_kernel", "reduction"),
          "batch_norm_gather_stats_with_counts": (_gather_with_counts, "batch_norm_reduce_statistics_kernel", "reduction"),
          "batch_norm_elemt": (_elemt, "batch_norm_transform_input_kernel", "pointwise"),
          "batch_norm_backward_reduce": (_backward_reduce, "batch_norm_backward_reduce_kernel", "reduction"),
          "batch_norm_backward_elemt": (_backward_elemt, "batch_norm_backward_elemt_kernel", "pointwise")}


@handles(*_PARTS)
def part(operator, args, kwargs):
    """One of the operators."""
    compute, kernel, kind = _PARTS[operator.name]
    inner_args, _, seen = unwrap(operator, args, kwargs)
    out = compute(*inner_args)
    # To gather, the input is not read: it tells the dtype.
    read = inner_args[1:] if "gather" in operator.name else inner_args
    launch_all([costs.Kernel(kernel, kind, costs.traffic(read, {}, out))], read, out)
    return wrap_results(operator, out, seen, args)


RMS_FORWARD, RMS_BACKWARD = torch.ops.aten._fused_rms_norm.default, torch.ops.aten._fused_rms_norm_backward.default


def install(library: torch.library.Library) -> None:
    """Give the device a kernel of its own for RMSNorm, so that autograd differentiates the operator as a whole."""
    COMPOSITE_HANDLED.add("_fused_rms_norm")
    library.impl(RMS_FORWARD, lambda *args: dispatch(RMS_FORWARD, args, {}), "PrivateUse1")
    library.impl(RMS_BACKWARD, decomposition_table[RMS_BACKWARD], "CPU")
