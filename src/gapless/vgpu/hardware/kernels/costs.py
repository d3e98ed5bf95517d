"""What CUDA runs for an operator: its kernels, the bytes they move and the FLOPs they compute.

An operator is one kernel unless a function, beside the operators it serves, says otherwise: here, or in the files for dense
products, feature maps, indexing, sorting and losses. A kernel takes
the larger of bytes ÷ (bandwidth × efficiency) and FLOPs ÷ (peak × efficiency), after a start, and never less
than a floor. Efficiencies, start and floor are the card's: assumptions, or fitted to measurements of it
(:mod:`gapless.fidelity.calibrate`). Where that does not tell a kernel's time, it has a :class:`Problem`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch

from ..cards.fitted import constants
from ..cards.specs import Card
from ..clock.engine import WHOLE
from ..times import geometry, streaming


class Problem(Protocol):
    """What a kernel is asked to do, with a model of how long that takes. Hashable: a card remembers the answer."""

    def start_and_busy_s(self, card: Card, dtype: str) -> tuple[float, float]:
        """Seconds before it does its work, and seconds in which the work has all of ``card``; ``dtype`` is what it
        computes in (a key of ``Card.peak_flops``, or any other, which is taken for float32)."""
        ...


@dataclass(slots=True)
class Kernel:
    """One launch. ``flops`` are counted against the peak of ``dtype`` (a key of ``Card.peak_flops``).
    ``workspace_bytes`` are taken while it runs. ``work``: what its blocks share out (:mod:`..times.geometry`),
    where that does not follow from its kind; its duration does not depend on it. ``problem``: a model of its time, where
    bytes and FLOPs alone do not tell. ``footprint``: how many different bytes it touches that the L2 cache may hold
    from the kernel before; 0 where it finds none there. ``planned``: in its place runs what cuDNN chooses
    (:mod:`...core.tuning`); its own duration is the fastest choice's."""

    name: str
    kind: str
    bytes: float
    flops: float = 0.0
    dtype: str = "float32"
    workspace_bytes: int = 0
    work: geometry.WorkRule | None = None
    problem: Problem | None = None
    footprint: int = 0
    planned: bool = False
    chosen: Any = field(default=None, init=False, repr=False, compare=False)  # kept by gapless.vgpu.core.tuning
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
BY_VALUES: set[str] = set()  # operators whose rules look at more than shapes, strides and dtypes


def kernels_of(*names: str, by_values: bool = False):
    """Decorator: the function gives the kernels of these operators (names without ``aten::``).

    It gets the operator's arguments and result as tensors of the shapes and dtypes concerned. ``by_values``: it looks at the
    values of tensors, or at what was noted of them, too; else its kernels are kept for the next call alike.
    """

    def register(rule: KernelRule) -> KernelRule:
        for name in names:
            RULES[name] = rule
        if by_values:
            BY_VALUES.update(names)
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


# ``zero_`` is a fill too, and no memset (ATen, native/Fill.cpp, cuda/FillKernel.cu).
@kernels_of("zeros", "zeros_like", "new_zeros", "zero_", "ones", "ones_like", "new_ones", "full", "full_like", "new_full",
            "fill_", "arange", "eye", "linspace", "randn", "rand", "randint", "randperm", "randn_like", "rand_like",
            "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "scalar_tensor")
def _fill(args, kwargs, out):
    size = sum(nbytes(t) for t in tensors(out))
    return [Kernel("fill_kernel", "pointwise", size)] if size else []


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


# -- layer normalisation ----------------------------------------------------------------------------


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
        found.append(Kernel("GammaBetaBackwardCUDAKernel", "reduction", moved, work=geometry.affine_gradient,
                            footprint=moved))
    return found


@kernels_of("_fused_rms_norm")
def _rms_norm(args, kwargs, out):
    x, (y, rstd) = args[0], out
    if not x.numel():
        return []
    return [Kernel("rms_norm_forward_kernel", "normalization", nbytes(x) + nbytes(y) + nbytes(rstd), work=geometry.rows,
                   problem=streaming.Rows("norm", *_rows(x, args[1]), x.element_size()))]


@kernels_of("_fused_rms_norm_backward")
def _rms_norm_backward(args, kwargs, out):
    # A layer norm's, without the mean and the bias (cuda/layer_norm_kernel.cu, LayerNormBackwardKernelImplInternal).
    return [replace(kernel, name=kernel.name.replace("norm_backward", "rms_norm_backward"))
            for kernel in _layer_norm_backward(args, kwargs, (*out, None))]


# -- scans ------------------------------------------------------------------------------------------


@kernels_of("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")
def _scan(args, kwargs, out):
    return [Kernel("DeviceScanKernel", "scan", traffic(args, kwargs, out))]
