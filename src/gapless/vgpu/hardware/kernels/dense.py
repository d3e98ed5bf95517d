"""What CUDA runs for matrix products and convolutions."""

from __future__ import annotations

import math

import torch

from ..times import convolutions, geometry, layout, products, streaming, tensor_cores
from ..times.precision import math_dtype
from .costs import Kernel, kernels_of, nbytes, tensors, traffic
from .feature_maps import converted


@kernels_of("mm", "addmm", "bmm", "baddbmm")
def _matmul(args, kwargs, out):
    # A bias is added while the tile is written (cuBLASLt's epilogue): no kernel of its own.
    left, right = [t for t in args if isinstance(t, torch.Tensor)][-2:]
    matrices = left.shape[0] if left.dim() == 3 else 1
    return _product("bmm" if left.dim() == 3 else "mm", matrices, left, right, traffic(args, kwargs, out))


@kernels_of("addbmm", "addbmm_")
def _sum_of_products(args, kwargs, out):
    # A loop of addmm over the batch, each adding to the last one's result (ATen, native/LinearAlgebra.cpp).
    left, right = args[1:3]
    size = left.shape[-2] * left.shape[-1] + right.shape[-2] * right.shape[-1] + 2 * left.shape[-2] * right.shape[-1]
    return [kernel for _ in range(left.shape[0])
            for kernel in _product("addbmm", 1, left, right, size * left.element_size())]


def _product(name: str, matrices: int, left: torch.Tensor, right: torch.Tensor, size: float) -> list[Kernel]:
    rows, depth, columns = *left.shape[-2:], right.shape[-1]
    if not matrices * rows * columns:
        return []
    dtype = math_dtype(left, "matmul")
    if not depth:
        return [Kernel(f"fill_kernel({name})", "pointwise", size)]  # the sum of nothing
    layout = "tn" if left.stride(-1) == 1 and right.stride(-2) == 1 and columns > 1 else "nn"
    problem = products.Product(matrices, rows, columns, depth, left.element_size(), layout)
    return [Kernel(f"gemm_{dtype}({name})", "matmul", size, 2 * matrices * rows * columns * depth, dtype,
                   problem=problem if dtype == "float32" else tensor_cores.Product(problem, _aligned(left, right, columns)))]


def _aligned(left: torch.Tensor, right: torch.Tensor, columns: int) -> bool:
    """Whether the rows of both and of the result, as they lie in memory, begin at multiples of 8 bytes."""
    together = max(tensor_cores.ROW_ALIGNMENT // left.element_size(), 1)
    rows = [columns, *(max(each.stride()[-2:]) for each in (left, right))]
    return not any(row % together for row in rows)


@kernels_of("_cdist_forward")
def _distances(args, kwargs, out):
    # A difference, a power and a sum for each pair and dimension, on no tensor core.
    return [Kernel("cdist_kernel", "matmul", traffic(args, kwargs, out), 3 * out.numel() * args[0].shape[-1],
                   str(out.dtype).removeprefix("torch."))]


@kernels_of("_trilinear")
def _trilinear(args, kwargs, out):
    # Each of the three is expanded in the dimensions given, multiplied, and summed over others.
    dims = max(t.dim() + len(expanded) for t, expanded in zip(args[:3], args[3:6]))
    sizes = [1] * dims
    for tensor, expanded in zip(args[:3], args[3:6]):
        kept = [dim for dim in range(dims) if dim not in expanded]
        for dim, size in zip(kept, tensor.shape):
            sizes[dim] = max(sizes[dim], size)
    return [Kernel("trilinear_kernel", "matmul", traffic(args, kwargs, out), 3 * math.prod(sizes),
                   str(out.dtype).removeprefix("torch."))]


def _shape(direction: str, x, weight, y, settings) -> convolutions.Convolution:
    """One pass of an operator with these ``settings``: its arguments from the stride to the groups."""
    stride, padding, dilation, transposed, _, groups = settings
    channels_last = layout.channels_last(x, weight)
    if transposed:  # what it transposes has its result as input
        x, y = y, x
    window = tuple(weight.shape[2:])
    stride, padding, dilation = (tuple(given) if len(given) == len(window) else tuple(given) * len(window)
                                 for given in (stride, padding, dilation))
    return convolutions.Convolution(direction, x.shape[0], x.shape[1], y.shape[1], tuple(x.shape[2:]), tuple(y.shape[2:]),
                                    window, stride, padding, dilation, groups, x.element_size(), channels_last)


def _pass(name: str, shape: convolutions.Convolution, size: float, dtype: str, work: geometry.WorkRule,
          held: int) -> Kernel:
    """``held``: bytes that are taken while it runs, besides its own workspace: operands that were converted for it, and
    results, which dispatch allocates after it."""
    return Kernel(f"convolution_{name}_{dtype}", "convolution", size, 2.0 * shape.multiply_adds, dtype, work=work,
                  problem=shape if dtype == "float32" else tensor_cores.Pass(shape), workspace_bytes=held, planned=True)


def _conversions(x, weight, *operands) -> tuple[list[Kernel], int]:
    """Copies of those ``operands`` of a convolution that are not in the memory format that it works in, and their bytes."""
    if x.dim() != 4:
        return [], 0
    last = layout.channels_last(x, weight)
    found = [each for each in operands if layout.is_converted(each, last)]
    return [converted(each) for each in found], sum(nbytes(each) for each in found)


@kernels_of("convolution")
def _convolution(args, kwargs, out):
    x, weight, bias, *settings = args
    direction = convolutions.INPUT_GRADIENT if args[6] else convolutions.FORWARD
    if not out.numel():
        return []
    found, held = _conversions(x, weight, x, weight)
    found.append(_pass("forward", _shape(direction, x, weight, out, settings), nbytes(x) + nbytes(weight) + nbytes(out),
                       math_dtype(x, "conv"), geometry.convolution, held + nbytes(out)))
    if bias is not None:
        # A broadcast over what lies before and behind the channels (ATen, cudnn/ConvShared.cpp: an add_ of its own).
        problem = streaming.Indexed(2 * nbytes(out), out.numel(), 3 if out.is_contiguous() else 2)
        found.append(Kernel("elementwise_kernel(add bias)", "pointwise", 2 * nbytes(out), problem=problem))
    return found


@kernels_of("convolution_backward")
def _convolution_backward(args, kwargs, out):
    grad, x, weight = args[:3]
    if not grad.numel():  # zeros (ATen, native/Convolution.cpp, ConvBackend::Empty)
        return [Kernel("fill_kernel", "pointwise", nbytes(each)) for each in tensors(out) if each.numel()]
    settings, transposed, dtype = args[4:10], args[7], math_dtype(x, "conv")
    size = nbytes(grad) + nbytes(x) + nbytes(weight)
    # The weight is read for the input's gradient only (ATen, cudnn/ConvShared.cpp).
    found, held = _conversions(x, weight, grad, x, *([weight] if out[0] is not None else []))
    if out[0] is not None:
        held += nbytes(out[0])
        direction = convolutions.FORWARD if transposed else convolutions.INPUT_GRADIENT
        found.append(_pass("dgrad", _shape(direction, x, weight, grad, settings), size, dtype, geometry.input_gradient,
                           held))
    if out[1] is not None:
        shape = _shape(convolutions.WEIGHT_GRADIENT, x, weight, grad, settings)
        found.append(_pass("wgrad", shape, size, dtype, geometry.weight_gradient, held + nbytes(out[1])))
    if out[2] is not None:
        found.append(Kernel("reduce_kernel(bias gradient)", "reduction", nbytes(grad), work=geometry.bias_gradient))
    return found
