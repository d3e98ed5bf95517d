"""What CUDA runs for an operator: its kernels, the bytes they move and the FLOPs they compute.

An operator is one kernel unless a function here, beside the operators it serves, says otherwise. A kernel takes
the larger of bytes ÷ (bandwidth × efficiency) and FLOPs ÷ (peak × efficiency), after a start, and never less
than a floor. Efficiencies, start and floor are the card's: assumptions, or fitted to measurements of it
(:mod:`gapless.fidelity.calibrate`). Where that does not tell a kernel's time, it has a :class:`Problem`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import torch

from . import convolutions, feature_maps, geometry, layout, products, streaming, tensor_cores
from .engine import WHOLE
from .fitted import constants
from .specs import Card

# Channels of a convolution are padded to the tile that the matrix units work on (implicit GEMM).
CHANNEL_TILE = 16


class Problem(Protocol):
    """What a kernel is asked to do, with a model of how long that takes. Hashable: a card remembers the answer."""

    def start_and_busy_s(self, card: Card, dtype: str) -> tuple[float, float]:
        """Seconds before it does its work, and seconds in which the work has all of ``card``; ``dtype`` is what it
        computes in (a key of ``Card.peak_flops``, or any other, which is taken for float32)."""
        ...


@dataclass(slots=True)
class Kernel:
    """One launch. ``flops`` are counted against the peak of ``dtype`` (a key of ``Card.peak_flops``).
    ``workspace_bytes`` are taken while it runs. ``work``: what its blocks share out (:mod:`gapless.vgpu.hardware.geometry`),
    where that does not follow from its kind; its duration does not depend on it. ``problem``: a model of its time, where
    bytes and FLOPs alone do not tell. ``footprint``: how many different bytes it touches that the L2 cache may hold
    from the kernel before; 0 where it finds none there."""

    name: str
    kind: str
    bytes: float
    flops: float = 0.0
    dtype: str = "float32"
    workspace_bytes: int = 0
    work: geometry.WorkRule | None = None
    problem: Problem | None = None
    footprint: int = 0
    _card: Card | None = field(default=None, init=False, repr=False, compare=False)
    _found: tuple[int, int] = field(default=(0, 0), init=False, repr=False, compare=False)

    def duration_ns(self, card: Card) -> int:
        """Modelled duration on ``card``."""
        return self.duration_and_share(card)[0]

    def duration_and_share(self, card: Card) -> tuple[int, int]:
        """Modelled duration on ``card`` (ns), and the share of the card (of ``engine.WHOLE``) that the kernel takes
        meanwhile: all, where bytes or FLOPs take its whole time; what its start or the floor adds is for other streams."""
        if self._card is not card:  # kernels are kept where the same call comes again
            self._found, self._card = self._worked_out(card), card
        return self._found

    def _worked_out(self, card: Card) -> tuple[int, int]:
        if self.problem is not None:
            found = card.times.get((self.problem, self.kind, self.dtype))
            if found is None:
                start_s, busy_s = self.problem.start_and_busy_s(card, self.dtype)
                found = _rounded(start_s, busy_s * card.time_factor(self.kind, self.dtype), card)
                card.times[self.problem, self.kind, self.dtype] = found
            return found
        seconds = self.bytes / (card.bandwidth_bytes_per_s * card.memory_share(self.kind))
        if 0 < self.footprint < 4 * card.l2_bytes:
            factor = card.times.get(self.footprint)
            if factor is None:
                factor = card.times[self.footprint] = streaming.over_l2(card, self.footprint)
            seconds *= factor
        if self.flops:
            dtype = self.dtype if self.dtype in card.peak_flops else "float32"
            seconds = max(seconds, self.flops / (card.peak_flops[dtype] * card.math_share(self.kind, dtype)))
        return _rounded(card.kernel_start_ns.get(self.kind, 0) / 1e9, seconds, card)


def _rounded(start_s: float, busy_s: float, card: Card) -> tuple[int, int]:
    busy_ns = busy_s * 1e9
    duration_ns = max(card.kernel_floor_ns, round(start_s * 1e9 + busy_ns))
    share = int(WHOLE * busy_ns / duration_ns) + 1
    return duration_ns, share if share < WHOLE else WHOLE


KernelRule = Callable[[tuple, dict, object], list[Kernel]]
RULES: dict[str, KernelRule] = {}


def kernels_of(*names: str):
    """Decorator: the function gives the kernels of these operators (names without ``aten::``).

    It gets the operator's arguments and result as tensors of the shapes and dtypes concerned.
    """

    def register(rule: KernelRule) -> KernelRule:
        for name in names:
            RULES[name] = rule
        return rule

    return register


def kernels(name: str, args: tuple, kwargs: dict, out) -> list[Kernel]:
    """The kernels of one call of the operator ``name`` (without ``aten::``)."""
    rule = RULES.get(name)
    if rule is not None:
        return rule(args, kwargs, out)
    results = tensors(out)
    if results and not any(t.numel() for t in results):
        return []  # TensorIterator launches nothing for no elements
    kind = _kind(name)
    if kind == "pointwise" and results and not results[0].is_nested:  # a nested tensor has no shape
        return [_elementwise(name, args, kwargs, results)]
    moved = traffic(args, kwargs, out)
    return [Kernel(f"{kind}_kernel({name})", kind, moved, footprint=moved)]


def _elementwise(name: str, args, kwargs, results: list[torch.Tensor]) -> Kernel:
    """TensorIterator runs over all operands as over one row where they lie alike; else it works out where each element
    lies, and operands whose neighbours are not the result's are read with less than whole sectors of use."""
    first = results[0]
    shape, strides = first.shape, first.stride()
    moved = sum(nbytes(t) for t in results)
    footprint = 0 if name[-1] == "_" and name != "copy_" else moved  # in place: counted with the operands
    indexed, elementwise = False, True
    operands = tensors(args, kwargs)
    for operand in operands:
        size = nbytes(operand)
        footprint += size
        if operand.shape != shape or operand.stride() != strides:
            elementwise = elementwise and _spreads(operand.shape, shape)
            if operand.dim() and size == operand.numel() * operand.element_size() and _crosses(operand, strides):
                size *= streaming.TRANSPOSED
            indexed = indexed or not (operand.is_contiguous() and first.is_contiguous() and operand.numel() == first.numel())
        moved += size
    problem = None
    if indexed and elementwise:
        problem = streaming.Indexed(round(moved), first.numel(), _dimensions(first, operands))
    return Kernel(f"pointwise_kernel({name})", "pointwise", moved, problem=problem, footprint=footprint)


def _spreads(shape, to) -> bool:
    """Whether ``shape`` is broadcast to the shape ``to``; if not, no elementwise operator made the one of the other."""
    return len(shape) <= len(to) and all(size in (1, wanted) for size, wanted in zip(reversed(shape), reversed(to)))


def _dimensions(result: torch.Tensor, operands: list[torch.Tensor]) -> int:
    """How many dimensions are left of ``result`` when those are merged over which all operands go on alike, as
    TensorIterator does (ATen, TensorIterator.cpp, coalesce_dimensions)."""
    return _merged(result.shape, result.stride(), *((t.shape, t.stride()) for t in operands))


@functools.lru_cache(maxsize=4096)
def _merged(shape, strides, *operands) -> int:
    steps = [strides]
    for own_shape, own_strides in operands:
        missing = len(shape) - len(own_shape)
        if missing >= 0:
            steps.append([0] * missing + [0 if size == 1 else step for size, step in zip(own_shape, own_strides)])
    found, inner = 0, None
    for dim in sorted((dim for dim, size in enumerate(shape) if size != 1), key=lambda dim: strides[dim]):
        if inner is None or any(step[dim] != step[inner] * shape[inner] for step in steps):
            found += 1
        inner = dim
    return max(found, 1)


def _crosses(operand: torch.Tensor, strides: tuple[int, ...]) -> bool:
    """Whether neighbours in the memory of ``operand`` are not neighbours in a result with ``strides``."""
    if operand.dim() != len(strides):
        return False
    return any(own == 1 and other != 1 and size > 1 for own, other, size in zip(operand.stride(), strides, operand.shape))


# -- sizes ----------------------------------------------------------------------------------------


def nbytes(tensor: torch.Tensor) -> int:
    """Bytes of the elements that exist: an expanded dimension (stride 0) counts once."""
    if tensor.is_contiguous():
        return tensor.numel() * tensor.element_size()
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride()):
        if stride != 0 or size == 0:
            count *= size
    return count * tensor.element_size()


def tensors(*trees) -> list[torch.Tensor]:
    """All tensors in arguments, which may hold lists and tuples of them."""
    found = []
    for tree in trees:
        if isinstance(tree, torch.Tensor):
            found.append(tree)
        elif isinstance(tree, (list, tuple)):
            found.extend(tensors(*tree))
        elif isinstance(tree, dict):
            found.extend(tensors(*tree.values()))
    return found


def traffic(args, kwargs, out) -> int:
    """Bytes of all inputs read once and all results written once (an operand written in place counts twice)."""
    return sum(nbytes(t) for t in tensors(args, kwargs)) + sum(nbytes(t) for t in tensors(out))


_REDUCTIONS = ("sum", "mean", "prod", "amax", "amin", "max", "min", "any", "all", "argmax", "argmin", "norm", "var",
               "std", "count_nonzero", "logsumexp", "linalg_vector_norm", "_log_softmax", "_softmax", "softmax")


def _kind(name: str) -> str:
    if name.startswith(_REDUCTIONS) and not name.startswith(("maximum", "minimum")):
        return "reduction"
    if "norm" in name and "normal" not in name:  # not the normal distribution
        return "normalization"
    return "pointwise"


# -- no kernel at all -----------------------------------------------------------------------------


@kernels_of("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "empty_permuted",
            "_has_compatible_shallow_copy_type")
def _nothing(args, kwargs, out):
    return []


# -- filling --------------------------------------------------------------------------------------


@kernels_of("zeros", "zeros_like", "new_zeros", "zero_")
def _memset(args, kwargs, out):
    return [Kernel("Memset (Device)", "memset", sum(nbytes(t) for t in tensors(out)))]


@kernels_of("ones", "ones_like", "new_ones", "full", "full_like", "new_full", "fill_", "arange", "eye", "linspace",
            "randn", "rand", "randint", "randperm", "randn_like", "rand_like", "normal_", "uniform_", "random_",
            "bernoulli_", "exponential_", "scalar_tensor")
def _fill(args, kwargs, out):
    return [Kernel("fill_kernel", "pointwise", sum(nbytes(t) for t in tensors(out)))]


# -- matrix products and convolutions -------------------------------------------------------------


# Where the program says whether float32 may be TF32 (the older ``allow_tf32`` flags set the same), and PyTorch's defaults.
_SWITCHES = {"matmul": torch.backends.cuda.matmul, "conv": torch.backends.cudnn.conv, "rnn": torch.backends.cudnn.rnn}
_DEFAULTS = {"matmul": "none", "conv": "tf32", "rnn": "tf32"}
_obeyed = True  # the switches


@contextmanager
def default_precision():
    """Inside, float32 is TF32 where PyTorch's defaults make it so, whatever the program has switched."""
    global _obeyed
    before, _obeyed = _obeyed, False
    try:
        yield
    finally:
        _obeyed = before


def switches() -> tuple:
    """All that a program can switch and that kernels depend on, beside the operator's arguments."""
    return (_obeyed, _SWITCHES["matmul"].fp32_precision, _SWITCHES["conv"].fp32_precision, _SWITCHES["rnn"].fp32_precision)


def math_dtype(tensor: torch.Tensor, kind: str) -> str:
    """What a kernel of the ``kind`` matmul, conv or rnn computes in."""
    if tensor.dtype == torch.float32:
        return "tf32" if (_SWITCHES[kind].fp32_precision if _obeyed else _DEFAULTS[kind]) == "tf32" else "float32"
    return str(tensor.dtype).removeprefix("torch.")


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
    if dtype == "float32":
        layout = "tn" if left.stride(-1) == 1 and right.stride(-2) == 1 and columns > 1 else "nn"
        problem = products.Product(matrices, rows, columns, depth, left.element_size(), layout)
    else:
        problem = tensor_cores.Product(matrices, rows, columns, depth, left.element_size())
    return [Kernel(f"gemm_{dtype}({name})", "matmul", size, 2 * matrices * rows * columns * depth, dtype, problem=problem)]


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


def _tiled(channels: int) -> int:
    return -(-channels // CHANNEL_TILE) * CHANNEL_TILE


def _convolution_flops(shape_in, shape_weight, shape_out, transposed: bool) -> float:
    """Multiply-adds twice, on channels padded to the tile."""
    channels_out, channels_in, *window = shape_weight
    positions = shape_in if transposed else shape_out
    count = 2.0 * positions[0] * _tiled(channels_out) * _tiled(channels_in)
    for size in (*positions[2:], *window):
        count *= size
    return count


def _pass(direction: str, x, weight, y, settings, dtype: str) -> Problem:
    """One pass of an operator with these ``settings``: its arguments from the stride to the groups."""
    stride, padding, dilation, transposed, _, groups = settings
    channels_last = layout.channels_last(x, weight)
    if transposed:  # what it transposes has its result as input
        x, y = y, x
    window = tuple(weight.shape[2:])
    stride, padding, dilation = (tuple(given) if len(given) == len(window) else tuple(given) * len(window)
                                 for given in (stride, padding, dilation))
    shape = convolutions.Convolution(direction, x.shape[0], x.shape[1], y.shape[1], tuple(x.shape[2:]), tuple(y.shape[2:]),
                                     window, stride, padding, dilation, groups, x.element_size(), channels_last)
    return shape if dtype == "float32" else tensor_cores.Pass(shape)


def _conversions(x, weight, *operands) -> list[Kernel]:
    """Copies of those ``operands`` of a convolution that are not in the memory format that it works in."""
    if x.dim() != 4:
        return []
    last = layout.channels_last(x, weight)
    return [_over_maps("layout", "elementwise_kernel(memory format)", 2 * nbytes(each), "pointwise")
            for each in operands if layout.is_converted(each, last)]


def _over_maps(what: str, name: str, size: float, kind: str, work: geometry.WorkRule | None = None) -> Kernel:
    return Kernel(name, kind, size, work=work, problem=feature_maps.Traffic(what, size))


@kernels_of("convolution")
def _convolution(args, kwargs, out):
    x, weight, bias, *settings = args
    dtype = math_dtype(x, "conv")
    flops = _convolution_flops(x.shape, weight.shape, out.shape, args[6])
    direction = convolutions.INPUT_GRADIENT if args[6] else convolutions.FORWARD
    found = [*_conversions(x, weight, x),
             Kernel(f"convolution_forward_{dtype}", "convolution", nbytes(x) + nbytes(weight) + nbytes(out), flops, dtype,
                    work=geometry.convolution, problem=_pass(direction, x, weight, out, settings, dtype))]
    if bias is not None:
        # A broadcast over what lies before and behind the channels (ATen, cudnn/ConvShared.cpp: an add_ of its own).
        problem = streaming.Indexed(2 * nbytes(out), out.numel(), 3 if out.is_contiguous() else 2)
        found.append(Kernel("elementwise_kernel(add bias)", "pointwise", 2 * nbytes(out), problem=problem))
    return found


@kernels_of("convolution_backward")
def _convolution_backward(args, kwargs, out):
    grad, x, weight = args[:3]
    settings, transposed = args[4:10], args[7]
    dtype = math_dtype(x, "conv")
    flops = _convolution_flops(x.shape, weight.shape, grad.shape, transposed)
    found = _conversions(x, weight, grad, x)
    if out[0] is not None:
        size = nbytes(grad) + nbytes(weight) + nbytes(x)
        direction = convolutions.FORWARD if transposed else convolutions.INPUT_GRADIENT
        found.append(Kernel(f"convolution_dgrad_{dtype}", "convolution", size, flops, dtype, work=geometry.input_gradient,
                            problem=_pass(direction, x, weight, grad, settings, dtype)))
    if out[1] is not None:
        size = nbytes(grad) + nbytes(x) + nbytes(weight)
        found.append(Kernel(f"convolution_wgrad_{dtype}", "convolution", size, flops, dtype, work=geometry.weight_gradient,
                            problem=_pass(convolutions.WEIGHT_GRADIENT, x, weight, grad, settings, dtype)))
    if out[2] is not None:
        found.append(Kernel("reduce_kernel(bias gradient)", "reduction", nbytes(grad), work=geometry.bias_gradient))
    return found


# -- copies, lookups, powers, softmax ----------------------------------------------------------------


_CHEAP_POWERS = (0.5, -0.5, 2, 3, -1, -2)  # a root, products, a quotient (ATen, cuda/PowKernel.cu)


@kernels_of("copy_")
def _copy(args, kwargs, out):
    if not out.numel():
        return []
    return [_elementwise("copy_", args[1:2], {}, [out])]  # what is overwritten is not read


@kernels_of("embedding")
def _embedding(args, kwargs, out):
    # A thread an element, which works out where that lies (ATen, cuda/Indexing.cu, indexSelectLargeIndex).
    moved = nbytes(args[1]) + 2 * nbytes(out)
    return [Kernel("indexSelectLargeIndex", "gather", moved, problem=streaming.Indexed(moved, out.numel(), 2))]


@kernels_of("pow", "pow_", "float_power")
def _power(args, kwargs, out):
    kernel = _elementwise("pow", args, kwargs, tensors(out))
    exponent = args[1] if len(args) > 1 else kwargs.get("exponent")
    if kernel.problem is None and not (isinstance(exponent, (int, float)) and exponent in _CHEAP_POWERS):
        kernel.flops = constants("streaming")["pow_flops"] * out.numel()
    return [kernel]


def _softmax(backward: bool, name: str) -> KernelRule:
    def rule(args, kwargs, out):
        if not out.numel():
            return []
        moved = traffic(args, kwargs, out)
        kernel = Kernel(f"reduction_kernel({name})", "reduction", moved, work=geometry.softmax)
        if out.dim() and args[2 if backward else 1] % out.dim() != out.dim() - 1:
            # Along another dimension a thread follows a column, three times forward (SoftMax.cu, SpatialSoftMax). Columns
            # are short (classes), so that the caches hold them after the first.
            kernel.footprint = moved
            return [kernel]
        length = out.shape[-1] if out.dim() else 1
        kernel.problem = streaming.Rows("softmax_backward" if backward else "softmax", out.numel() // length, length,
                                        max(args[0].element_size(), out.element_size()))
        return [kernel]

    return rule


for _name, _backward in (("_softmax", False), ("_log_softmax", False), ("_softmax_backward_data", True),
                         ("_log_softmax_backward_data", True)):
    RULES[_name] = _softmax(_backward, _name)


# -- normalisation --------------------------------------------------------------------------------


@kernels_of("native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm", "_batch_norm_with_update",
            "_native_batch_norm_legit_no_training")
def _batch_norm(args, kwargs, out):
    x, y = args[0], tensors(out)[0]
    training = next((a for a in args if isinstance(a, bool)), out[1].numel() > 0)
    what = "batch_norm" if training else "batch_norm_evaluation"
    return [_over_maps(what + _format(x), "norm_forward_kernel", (1 + training) * nbytes(x) + nbytes(y), "normalization",
                       geometry.means)]


@kernels_of("native_batch_norm_backward", "batch_norm_backward", "cudnn_batch_norm_backward")
def _batch_norm_backward(args, kwargs, out):
    grad, x = args[:2] if args[0].dim() == args[1].dim() else (args[1], args[0])
    return [_over_maps("batch_norm_backward" + _format(x), "norm_backward_kernel", 5 * nbytes(grad), "normalization",
                       geometry.means_backward)]


@kernels_of("native_group_norm")
def _group_norm(args, kwargs, out):
    x, y = args[0], tensors(out)[0]
    converted = [_over_maps("layout", "elementwise_kernel(memory format)", 2 * nbytes(x), "pointwise")]
    return (converted if x.numel() and not x.is_contiguous() else []) + [
        _over_maps("group_norm", "norm_forward_kernel", 2 * nbytes(x) + nbytes(y), "normalization", geometry.means)]


@kernels_of("native_group_norm_backward")
def _group_norm_backward(args, kwargs, out):
    return [_over_maps("group_norm_backward", "norm_backward_kernel", 5 * nbytes(args[0]), "normalization",
                       geometry.means_backward)]


def _format(tensor) -> str:
    return "_nhwc" if tensor.dim() == 4 and layout.suggests_channels_last(tensor) else "_nchw"


@kernels_of("native_layer_norm")
def _layer_norm(args, kwargs, out):
    x = args[0]
    if not x.numel():
        return []
    return [Kernel("layer_norm_forward_kernel", "normalization", nbytes(x) + nbytes(tensors(out)[0]), work=geometry.rows,
                   problem=streaming.Rows("norm", *_rows(x, args[1]), x.element_size()))]


def _rows(x: torch.Tensor, normalized_shape) -> tuple[int, int]:
    length = math.prod(normalized_shape)
    return x.numel() // max(length, 1), length


@kernels_of("native_layer_norm_backward")
def _layer_norm_backward(args, kwargs, out):
    # The input's gradient by rows; then those of weight and bias, down the columns (layer_norm_kernel.cu).
    grad, x, normalized_shape = args[:3]
    moved, found = nbytes(grad) + nbytes(x), []
    if not x.numel():
        return []
    if out[0] is not None:
        found.append(Kernel("norm_backward_kernel", "normalization", moved + nbytes(out[0]), work=geometry.means_backward,
                            problem=streaming.Rows("norm_backward", *_rows(x, normalized_shape), x.element_size())))
    if out[1] is not None or out[2] is not None:
        found.append(Kernel("GammaBetaBackwardCUDAKernel", "reduction", moved, work=geometry.bias_gradient, footprint=moved))
    return found


# -- pooling and resizing -------------------------------------------------------------------------


@kernels_of("max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d", "adaptive_max_pool2d",
            "max_pool3d_with_indices", "avg_pool3d", "_adaptive_avg_pool3d", "adaptive_max_pool3d")
def _pooling(args, kwargs, out):
    return [_over_maps("pooling" + _format(args[0]), "pool_forward_kernel", traffic(args, kwargs, out), "pointwise")]


@kernels_of("max_pool2d_with_indices_backward", "avg_pool2d_backward", "_adaptive_avg_pool2d_backward",
            "adaptive_max_pool2d_backward", "max_pool3d_with_indices_backward", "avg_pool3d_backward",
            "_adaptive_avg_pool3d_backward", "adaptive_max_pool3d_backward")
def _pooling_backward(args, kwargs, out):
    return [_over_maps("pooling_backward" + _format(tensors(out)[0]), "pool_backward_kernel", traffic(args, kwargs, out),
                       "pointwise")]


_RESIZERS = [f"{name}{way}" for way in ("", "_backward") for name in (
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_bilinear2d", "upsample_bicubic2d",
    "upsample_linear1d", "upsample_trilinear3d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
    "_upsample_nearest_exact2d")]


@kernels_of(*_RESIZERS)
def _resizing(args, kwargs, out):
    return [_over_maps("resizing", "upsample_kernel", traffic(args, kwargs, out), "pointwise")]


# -- scans (indexing, sorting and losses have files of their own) -----------------------


@kernels_of("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")
def _scan(args, kwargs, out):
    return [Kernel("DeviceScanKernel", "scan", traffic(args, kwargs, out))]


# -- many tensors at once -------------------------------------------------------------------------

# How many tensors of a list one multi-tensor launch takes, by the number of lists (ATen, MultiTensorApply.cuh).
TENSORS_PER_LAUNCH = {1: 110, 2: 64, 3: 48, 4: 36, 5: 30}
BLOCKS_PER_LAUNCH = 320
CHUNK_STEP = 4 * geometry.CHUNK_THREADS  # elements that a block works on at a time


# What a fused optimizer reads of each parameter's bytes, and writes: its weight, gradient and states (ATen,
# cuda/fused_adam_utils.cuh, FusedSgdKernel.cu, fused_adagrad_utils.cuh).
_FUSED_WRITES = {"_fused_adam_": 3, "_fused_adamw_": 3, "_fused_sgd_": 2, "_fused_adagrad_": 2}


def multi_tensor(name: str, args, kwargs, out) -> list[Kernel]:
    """``_foreach_*`` and ``_fused_*``: a launch for each chunk of the lists."""
    lists = [a for a in args if isinstance(a, (list, tuple)) and a and isinstance(a[0], torch.Tensor)]
    count = max(len(a) for a in lists)
    sizes = [t.numel() for t in max(lists, key=len)]
    blocks = sum(-(-size // geometry.CHUNK) for size in sizes)
    launches = max(-(-count // TENSORS_PER_LAUNCH.get(len(lists), 30)), -(-blocks // BLOCKS_PER_LAUNCH))
    first = sum(nbytes(t) for t in lists[0])
    written = sum(nbytes(t) for t in tensors(out)) or first * _FUSED_WRITES.get(name, 1)
    total = sum(nbytes(t) for t in tensors(lists)) + written
    problem = streaming.Chunks(total / launches, -(-min(max(sizes), geometry.CHUNK) // CHUNK_STEP))
    return [Kernel(f"multi_tensor_apply_kernel({name})", "optimizer", total / launches, problem=problem)
            for _ in range(launches)]
