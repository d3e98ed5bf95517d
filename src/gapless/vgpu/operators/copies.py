"""Operators that are more than "compute, then launch": copies, read-backs, indexing, convolutions."""

# mypy: disable-error-code="arg-type, return-value"
# PyTorch's stubs lack what is used here.
from __future__ import annotations

import warnings

import torch

from ..core.dispatch import COMPOSITES, UNKNOWN_SIZES, Operator, check_device, handles, launch_all, read_back, run, unwrap
from ..core.operands import elsewhere
from ..core.tensor import VirtualTensor, as_zero, wrap
from ..hardware.kernels import costs, indexing
from ..hardware.times.layout import suggests_channels_last
from ..ordering import arrivals
from ..ordering.pinned import is_pinned, pin, without_values
from ..process.state import DEVICE, state

aten = torch.ops.aten

# -- copies ---------------------------------------------------------------------------------------


def _dense(tensor: torch.Tensor) -> bool:
    """Whether the elements lie side by side in some order, so that one copy moves them all."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.numel() == 0 or last + 1 == tensor.numel()


def _as_it_lies(source: torch.Tensor, target: torch.Tensor) -> bool:
    """Whether the bytes can move as they are. Else PyTorch first makes a temporary tensor, which is pageable."""
    return (source.dtype == target.dtype and source.shape == target.shape and source.stride() == target.stride()
            and _dense(source) and source.is_conj() == target.is_conj() and source.is_neg() == target.is_neg())


def _as_read(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The values of the CPU tensor ``source`` that a copy to one like ``target`` reads when its stream comes to it. Where
    the host makes a temporary tensor, they are what is there now."""
    return arrivals.as_copied(source) if is_pinned(source) and _as_it_lies(source, target) else source


def _copy_in(source: torch.Tensor, target: torch.Tensor, non_blocking: bool) -> None:
    """The time of a copy from the CPU tensor ``source`` to one like ``target``. Another dtype is converted on the host."""
    pinned = is_pinned(source)
    as_it_lies = pinned and _as_it_lies(source, target)
    if pinned and not as_it_lies:
        arrivals.host_reads(source)
    end_ns = state.timeline.copy("HtoD", target.numel() * target.element_size(), pinned=as_it_lies,
                                 blocking=not non_blocking)
    if as_it_lies:
        arrivals.copy_in(source, end_ns)


def _copy_out(source: torch.Tensor, non_blocking: bool, pinned: bool) -> tuple[torch.Tensor, int]:
    """CPU tensor of a device-to-host copy, and when it ends (ns). Values of a shape-only tensor read as zeros."""
    end_ns = state.timeline.copy("DtoH", source.numel() * source.element_size(), pinned=pinned, blocking=not non_blocking)
    return (torch.zeros_like(source, device="cpu") if source.is_meta else source.clone()), end_ns


@handles("_pin_memory")
def _pin_memory(operator, args, kwargs):
    raise RuntimeError(f"cannot pin '{args[0].type()}' only dense CPU tensors can be pinned")  # ATen/native/Memory.cpp


@handles("_to_copy")
def _to_copy(operator, args, kwargs):
    source, = args
    options = dict(kwargs)
    device = options.pop("device", None)
    non_blocking = bool(options.pop("non_blocking", False))
    pinned = bool(options.pop("pin_memory", None))
    options = {name: value for name, value in options.items() if value is not None}
    if device is not None:
        check_device(device)
    if (non_blocking and options.get("dtype") not in (None, source.dtype) and device is not None
            and (source.device.type, device.type) in (("cpu", DEVICE.type), (DEVICE.type, "cpu")) and source.is_contiguous()
            and options.get("memory_format") in (None, torch.preserve_format, torch.contiguous_format)):
        # Of a copy that is not waited for the device converts, in memory of its own; else the host does (ATen, cuda/Copy.cu,
        # copy_kernel_cuda, conversion_device). Where the order changes too, there is a pageable tensor in between.
        moved = {"device": device, "non_blocking": True, **({"pin_memory": True} if pinned else {})}
        steps = (moved, options) if device.type == DEVICE.type else (options, moved)
        return aten._to_copy(aten._to_copy(source, **steps[0]), **steps[1])
    if not isinstance(source, VirtualTensor):
        values = "cpu" if state.shape_only is None else "meta"
        inner = aten._to_copy(source, **options, device=torch.device(values))
        read = _as_read(source, inner)
        if read is not source:
            inner.copy_(read)
        _copy_in(source, inner, non_blocking)
        return wrap(inner, state.memory)
    if device is None or device.type == DEVICE.type:
        return run(operator, (source,), options)
    if device.type == "meta":
        return aten._to_copy(source.within, **options, device=device)
    if device.type != "cpu":
        raise RuntimeError(f"a tensor on {DEVICE} can be copied to the CPU and to itself, not to {device}")
    # Asked not to block, PyTorch puts the result into pinned memory.
    pinned = pinned or non_blocking
    values, end_ns = _copy_out(source.within, non_blocking, pinned and options.get("dtype") in (None, source.dtype))
    values = aten._to_copy(values, **options) if options else values
    if not pinned:
        return values
    host = without_values(values)
    if not source.within.is_meta:
        arrivals.copy_out(values, host, end_ns)
    return host


@handles("copy_")
def _copy_(operator, args, kwargs):
    target, source, *rest = args
    non_blocking = bool(rest[0]) if rest else kwargs.get("non_blocking", False)
    if isinstance(target, VirtualTensor) and isinstance(source, VirtualTensor):
        return run(operator, args, kwargs)
    if non_blocking and target.dtype != source.dtype and source.is_contiguous() and target.is_contiguous():  # as in _to_copy
        away = source.to(target.device, non_blocking=True) if isinstance(target, VirtualTensor) else source.to(target.dtype)
        return target.copy_(away, non_blocking=True)
    if isinstance(target, VirtualTensor):
        if not target.within.is_meta:
            target.within.copy_(_as_read(source, target.within))
        _copy_in(source, target.within, non_blocking)
        return target
    pinned = is_pinned(target)
    if (pinned and target.is_contiguous() and not source.within.is_contiguous() and source.dtype == target.dtype
            and source.shape == target.shape):
        source = source.contiguous()  # on the device (ATen, cuda/Copy.cu, copy_kernel_cuda: src_contig)
    inner = source.within
    as_it_lies = pinned and _as_it_lies(inner, target)
    values, end_ns = _copy_out(inner, non_blocking, as_it_lies)
    if as_it_lies and not inner.is_meta:
        arrivals.copy_out(values, target, end_ns)
    else:
        target.copy_(values)
    return target


@handles("_local_scalar_dense")
def _local_scalar_dense(operator, args, kwargs):
    inner = args[0].within
    read_back(inner.element_size())
    if inner.is_meta:
        return torch.zeros((), dtype=inner.dtype).item()
    return inner.item()


@handles("equal", "allclose")
def _compare(operator, args, kwargs):
    inner_args, inner_kwargs, _ = unwrap(operator, args, kwargs)
    left, right, *_ = inner_args
    if operator.name == "equal" and (left.shape != right.shape or left.numel() == 0):
        return left.shape == right.shape  # the host knows
    if operator.name == "equal" and _same_memory(left, right):
        return True  # as CUDA answers (ATen, cuda/Equal.cpp), without a look
    launch_all([costs.Kernel(f"elementwise_kernel({operator.name})", "pointwise", costs.traffic((left, right), {}, None)),
                costs.Kernel("reduce_kernel(all)", "reduction", left.numel())], (left, right))
    read_back(1)
    return False if left.is_meta else operator.func(*inner_args, **inner_kwargs)


def _same_memory(left: torch.Tensor, right: torch.Tensor) -> bool:
    return (left.untyped_storage()._cdata == right.untyped_storage()._cdata and left.dtype == right.dtype
            and left.storage_offset() == right.storage_offset() and left.stride() == right.stride())


def _resize_as(target, template, memory_format=None):
    """Asks the template for its shape, and with ``preserve_format`` for its format: it may lie anywhere (ATen, Resize.cpp,
    ``resize_as_``)."""
    if memory_format is torch.preserve_format:
        memory_format = torch._prims_common.suggest_memory_format(template)
    return target.resize_(template.shape, memory_format=memory_format or torch.contiguous_format)


COMPOSITES[aten.resize_as_.default] = _resize_as


# -- data-dependent sizes -------------------------------------------------------------------------


def _share(mask: VirtualTensor) -> int:
    density = mask.density
    if density is None:
        density = (state.shape_only.density if state.shape_only is not None else 0.5)
    # An expanded mask repeats its elements: so must its count, or rows would not come out whole.
    distinct = costs.nbytes(mask.within) // mask.within.element_size()
    return round(distinct * density) * (mask.numel() // distinct) if distinct else 0


def nonzero(mask: VirtualTensor) -> torch.Tensor:
    """Inner result of ``nonzero``: count, wait for the count, select."""
    inner = mask.within
    launch_all(indexing.nonzero_count(inner), (inner,))
    read_back()
    if inner.is_meta:
        found = inner.new_empty((inner.dim(), _share(mask)), dtype=torch.int64).t()  # as CUDA lays it out
    else:
        found = aten.nonzero(inner)
    launch_all(indexing.nonzero_select(inner, found.shape[0]), (inner,), found)
    return found


@handles("nonzero")
def _nonzero(operator, args, kwargs):
    return wrap(nonzero(args[0]), state.memory)


def _unknown_size(*names):
    def register(rule):
        for name in names:
            UNKNOWN_SIZES[name] = rule
        return rule

    return register


def _distinct(elements: int) -> int:
    return min(elements, state.shape_only.distinct if state.shape_only is not None else elements)


@_unknown_size("_unique2", "unique_consecutive", "_unique")
def _unique_shape(args, kwargs):
    x = args[0]
    found = _distinct(x.numel())
    return x.new_empty((found,)), x.new_empty(x.shape, dtype=torch.int64), x.new_empty((found,), dtype=torch.int64)


@_unknown_size("unique_dim", "unique_dim_consecutive")
def _unique_dim_shape(args, kwargs):
    x, dim = args[:2]
    found, shape = _distinct(x.shape[dim]), list(x.shape)
    shape[dim] = found
    return x.new_empty(shape), x.new_empty((x.shape[dim],), dtype=torch.int64), x.new_empty((found,), dtype=torch.int64)


@_unknown_size("repeat_interleave")
def _repeat_interleave_shape(args, kwargs):
    # Each once, unless the program says how many come out.
    size = kwargs.get("output_size")
    return args[0].new_empty((args[0].numel() if size is None else size,), dtype=torch.int64)


@handles("masked_select")
def _masked_select(operator, args, kwargs):
    unwrap(operator, args, kwargs)  # refuses a mask on the host, which an index may be
    x, mask = args
    if mask.dtype != torch.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    expanded_x, expanded_mask = torch.broadcast_tensors(x, mask)
    if expanded_x.dim() == 0:  # the result has one dimension all the same
        expanded_x, expanded_mask = expanded_x.unsqueeze(0), expanded_mask.unsqueeze(0)
    return aten.index(expanded_x, [expanded_mask])


@_unknown_size("bincount")
def _bincount_shape(args, kwargs):
    distinct = state.shape_only.distinct if state.shape_only is not None else 1
    return args[0].new_empty((max(distinct, kwargs.get("minlength", 0), *args[2:3]),))


@_unknown_size("nms")
def _nms_shape(args, kwargs):
    return args[0].new_empty((round(args[0].shape[0] * state.shape_only.density),), dtype=torch.int64)


# -- indexing with masks --------------------------------------------------------------------------


_MASK = (torch.bool, torch.uint8)


def _check_mask(source: torch.Tensor, mask: torch.Tensor, place: int) -> None:
    if mask.shape != source.shape[place:place + mask.dim()]:
        raise IndexError(f"The shape of the mask {list(mask.shape)} at index {place} does not match the shape of the "
                         f"indexed tensor {list(source.shape)} at index {place}")


def _expand_masks(source: torch.Tensor, indices) -> list:
    """Masks become int64 positions, a device's by a ``nonzero`` and its wait. A CPU index is copied over: a wait too,
    unless it is a mask, whose positions PyTorch puts into pinned memory and copies without blocking (ATen,
    IndexingUtils.h, ``expandTensors``)."""
    timeline = state.timeline
    expanded = []
    for index in indices:
        if index is None or index.dtype not in _MASK:
            expanded.append(index if index is None or isinstance(index, VirtualTensor) else index.to(DEVICE))
            continue
        if index.dtype == torch.uint8:  # in PyTorch's words
            warnings.warn("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
                          stacklevel=2)
        _check_mask(source, index, len(expanded))
        if not isinstance(index, VirtualTensor):
            expanded.extend(pin(index.nonzero()).to(DEVICE, non_blocking=True).unbind(1))
            continue
        timeline.begin_op("aten::nonzero")
        try:
            found = wrap(nonzero(index), state.memory)
        finally:
            timeline.end_op()
        positions = found.unbind(1)
        for each in positions:
            indexing.mark_as_in_order(each.within)  # type: ignore[attr-defined]
        expanded.extend(positions)
    return expanded


@handles("index", "_unsafe_index", out=True)
def _index(operator, args, kwargs):
    source, indices = args
    return run(operator, (source, _expand_masks(source, indices)), kwargs)


def _only_mask(target, indices, values) -> torch.Tensor | None:
    """The mask, shaped to broadcast, where a number from the host is written through one mask and nothing else.

    PyTorch makes a ``masked_fill`` of that (``canDispatchToMaskedFill``): nothing to count, no wait.
    """
    given = [(place, index) for place, index in enumerate(indices) if index is not None]
    if isinstance(values, VirtualTensor) or values.numel() != 1 or len(given) != 1:
        return None
    (place, index), = given
    if not isinstance(index, VirtualTensor) or index.dtype not in _MASK:
        return None
    _check_mask(target, index, place)
    return index.within.reshape(index.shape + (1,) * (target.dim() - place - index.dim()))


def _fill_through(operator, target, mask, value):
    written = target.within if operator.mutates else target.within.clone()
    if not written.is_meta:
        written.masked_fill_(mask.bool(), value.to(written.dtype).reshape(()))
    moved = costs.nbytes(written) + costs.nbytes(mask)
    launch_all([costs.Kernel("elementwise_kernel(masked_fill)", "pointwise", moved)], (written,))
    return target if operator.mutates else wrap(written, state.memory)


def _into_the_host(operator, target, indices, values, rest, kwargs):
    """As on CUDA, a number of the device is read, which waits, and nothing else of the device is taken (ATen,
    ``TensorAdvancedIndexing.cpp``)."""
    if any(isinstance(index, VirtualTensor) for index in indices):
        raise RuntimeError(f"indices should be either on {target.device} or on the same device as the indexed tensor "
                           f"({target.device})")
    if values.dim():
        raise elsewhere(target, f"in {operator.full_name}: move the CPU tensor with .to({str(DEVICE)!r})")
    return operator.func(target, indices, values.cpu(), *rest, **kwargs)


@handles("index_put_", "index_put", "_index_put_impl_", "_unsafe_index_put")
def _index_put(operator, args, kwargs):
    target, indices, values, *rest = args
    if not isinstance(target, VirtualTensor):
        return _into_the_host(operator, target, indices, values, rest, kwargs)
    accumulate = rest[0] if rest else kwargs.get("accumulate", False)
    mask = _only_mask(target, indices, values) if not accumulate else None
    if mask is not None:
        return _fill_through(operator, target, mask, values)
    if not isinstance(values, VirtualTensor):
        values = values.to(DEVICE)  # a pageable copy, and its wait, even of one number
    expanded = _expand_masks(target, indices)
    launch = _as_gradient if accumulate and operator.name == "index_put" else None
    if target.within.is_meta:
        # Assumed counts of positions and of values may differ by rounding: only the time matters here.
        inner_args, _, _ = unwrap(operator, (target, expanded, values, *rest), {})
        written = inner_args[0] if operator.mutates else torch.empty_like(target.within)
        if launch is not None:
            launch(inner_args, kwargs, written)
        else:
            launch_all(costs.kernels(operator.name, inner_args, kwargs, written), inner_args, written)
        return target if operator.mutates else wrap(written, state.memory)
    return run(operator, (target, expanded, values, *rest), kwargs, launch)


def _as_gradient(args, kwargs, out) -> None:
    """The kernels of the gradient of an index. For tensors that are not CUDA's, autograd asks for a copy; on CUDA it writes
    into the zeros that it has just made and checks no bounds (FunctionsManual.cpp, ``index_backward``). Nobody else is
    expected to accumulate out of place."""
    launch_all(costs.kernels("_index_put_impl_", (*args[:3], True, True), {}, args[0]), args, out)


# -- choosing ---------------------------------------------------------------------------------------


@handles("where", out=True)
def _where(operator, args, kwargs):
    # Unlike arithmetic, `where` does not take a number on the host by value: it is copied to the device, which blocks
    # (ATen, TensorCompare.cpp, where_self_out). A Python number never gets here: it is made on the device.
    return run(operator, tuple(a.to(DEVICE) if isinstance(a, torch.Tensor) and not isinstance(a, VirtualTensor)
                               and a.dim() == 0 else a for a in args), kwargs)


# -- operands that are read as numbers --------------------------------------------------------------

# Operator → the arguments that PyTorch turns into Python numbers, wherever they lie (ATen, TensorAdvancedIndexing.cpp,
# cuda/Indexing.cu, RangeFactories.cpp).
_READ_AS_NUMBERS = {"masked_fill": (2,), "masked_fill_": (2,), "index_fill": (3,), "index_fill_": (3,),
                    "linspace": (0, 1), "logspace": (0, 1)}


@handles(*_READ_AS_NUMBERS, out=True)
def _with_numbers(operator, args, kwargs):
    values = [*(args[place] for place in _READ_AS_NUMBERS[operator.name] if place < len(args)),
              *(kwargs.get(name) for name in ("value", "start", "end"))]
    for value in values:
        if isinstance(value, VirtualTensor):
            read_back(value.element_size())
    return run(operator, args, kwargs)


# -- convolutions, memory formats -----------------------------------------------------------------


@handles("native_group_norm", "roll", "reflection_pad2d", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
         "native_channel_shuffle")
def _of_contiguous_images(operator, args, kwargs):
    # CUDA makes images contiguous first, and so is the result; the CPU keeps their format (ATen, group_norm.cpp,
    # cuda/TensorTransformations.cu, cuda/ReflectionPad.cu; the shuffles are made of reshapes, PixelShuffle.cpp).
    x, *rest = args
    if isinstance(x, VirtualTensor) and x.dim() == 4 and suggests_channels_last(x):
        args = (x.contiguous(), *rest)
    return run(operator, args, kwargs)


@handles("_efficientzerotensor")
def _zeros_without_memory(operator, args, kwargs):
    # What forward-mode derivatives take for "no tangent".
    (size,), options, _ = unwrap(operator, args, kwargs)
    return as_zero(wrap(torch.zeros(size, **options), state.memory))


@handles("convolution_overrideable")
def _convolution(operator, args, kwargs):
    return run(Operator.of(aten.convolution.default), args, kwargs)


@handles("convolution_backward_overrideable")
def _convolution_backward(operator, args, kwargs):
    grad, x, weight, stride, padding, dilation, transposed, output_padding, groups, mask = args
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    sizes = [channels] if mask[2] else None
    return run(Operator.of(aten.convolution_backward.default),
               (grad, x, weight, sizes, stride, padding, dilation, transposed, output_padding, groups, mask), kwargs)
