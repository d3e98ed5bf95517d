"""Operators that are more than "compute, then launch": copies, read-backs, indexing, convolutions."""

from __future__ import annotations

import torch

from . import costs
from .dispatch import (
    UNKNOWN_SIZES, Operator, compute, handles, launch_all, read_back, run, unwrap, wrap_results,
)
from .pinned import is_pinned
from .state import state
from .tensor import DEVICE, VirtualTensor, wrap

aten = torch.ops.aten

# -- copies ---------------------------------------------------------------------------------------


def _from_host(source: torch.Tensor, non_blocking: bool, **options) -> torch.Tensor:
    """Inner tensor of a host-to-device copy of ``source``."""
    state.timeline.copy("HtoD", source.numel() * source.element_size(), pinned=is_pinned(source),
                        blocking=not non_blocking)
    if state.shape_only is not None:
        return aten._to_copy(source, **{**options, "device": torch.device("meta")})
    return aten._to_copy(source, **{**options, "device": torch.device("cpu")})


def _to_host(source: torch.Tensor, non_blocking: bool, pinned: bool) -> torch.Tensor:
    """CPU tensor of a device-to-host copy. Values of a shape-only tensor read as zeros."""
    state.timeline.copy("DtoH", costs.nbytes(source), pinned=pinned, blocking=not non_blocking)
    if source.is_meta:
        return torch.zeros(source.shape, dtype=source.dtype)
    return source.clone()


@handles("_to_copy")
def _to_copy(operator, args, kwargs):
    source, = args
    options = dict(kwargs)
    device = options.pop("device", None)
    non_blocking = options.pop("non_blocking", False)
    pinned = bool(options.pop("pin_memory", None))
    options = {name: value for name, value in options.items() if value is not None}
    if not isinstance(source, VirtualTensor):
        return wrap(_from_host(source, non_blocking, **options), state.memory)
    if device is not None and device.type not in (DEVICE.type, "cpu"):
        raise RuntimeError(f"a tensor on {DEVICE} can be copied to the CPU and to itself, not to {device}")
    if device is not None and device.type == "cpu":
        host = _to_host(source.inner, non_blocking, pinned)
        return aten._to_copy(host, **options) if options else host
    return run(operator, (source,), options)


@handles("copy_")
def _copy_(operator, args, kwargs):
    target, source, *rest = args
    non_blocking = bool(rest[0]) if rest else kwargs.get("non_blocking", False)
    if isinstance(target, VirtualTensor) and isinstance(source, VirtualTensor):
        return run(operator, args, kwargs)
    if isinstance(target, VirtualTensor):
        inner = _from_host(source, non_blocking)
        if target.inner.is_meta == inner.is_meta:
            target.inner.copy_(inner)
        return target
    target.copy_(_to_host(source.inner, non_blocking, is_pinned(target)))
    return target


@handles("_local_scalar_dense")
def _local_scalar_dense(operator, args, kwargs):
    inner = args[0].inner
    read_back(inner.element_size())
    if inner.is_meta:
        return torch.zeros((), dtype=inner.dtype).item()
    return inner.item()


@handles("equal")
def _equal(operator, args, kwargs):
    inner_args, _, _ = unwrap(operator, args, kwargs)
    launch_all([costs.Kernel("elementwise_kernel(eq)", "pointwise", costs.traffic(inner_args, {}, None)),
                costs.Kernel("reduce_kernel(all)", "reduction", inner_args[0].numel())])
    read_back(1)
    return False if inner_args[0].is_meta else torch.equal(*inner_args)


# -- data-dependent sizes -------------------------------------------------------------------------


def _share(mask: VirtualTensor) -> int:
    density = mask.density
    if density is None:
        density = (state.shape_only.density if state.shape_only is not None else 0.5)
    # An expanded mask repeats its elements: so must its count, or rows would not come out whole.
    distinct = costs.nbytes(mask.inner) // mask.inner.element_size()
    return round(distinct * density) * (mask.numel() // distinct) if distinct else 0


def nonzero(mask: VirtualTensor) -> torch.Tensor:
    """Inner result of ``nonzero``: count, wait for the count, select."""
    timeline = state.timeline
    inner = mask.inner
    launch_all(costs.nonzero_count(inner))
    read_back()
    if inner.is_meta:
        found = inner.new_empty((_share(mask), inner.dim()), dtype=torch.int64)
    else:
        found = aten.nonzero(inner)
    launch_all(costs.nonzero_select(inner, found.shape[0]))
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


@_unknown_size("_unique2", "unique_dim", "unique_consecutive", "_unique")
def _unique_shape(args, kwargs):
    x = args[0]
    found = min(x.numel(), state.shape_only.distinct if state.shape_only is not None else x.numel())
    return x.new_empty((found,)), x.new_empty(x.shape, dtype=torch.int64), x.new_empty((found,), dtype=torch.int64)


@handles("masked_select")
def _masked_select(operator, args, kwargs):
    x, mask = args
    expanded_x, expanded_mask = torch.broadcast_tensors(x, mask)
    return aten.index(expanded_x, [expanded_mask])


@_unknown_size("bincount")
def _bincount_shape(args, kwargs):
    distinct = state.shape_only.distinct if state.shape_only is not None else 1
    return args[0].new_empty((max(distinct, kwargs.get("minlength", 0), *args[2:3]),))


# -- indexing with masks --------------------------------------------------------------------------


def _expand_masks(indices) -> list:
    """Masks become int64 positions, each by a ``nonzero`` and its wait; CPU indices are copied over."""
    timeline = state.timeline
    expanded = []
    for index in indices:
        if index is None:
            expanded.append(None)
        elif not isinstance(index, VirtualTensor):
            expanded.append(index.to(DEVICE))
        elif index.dtype in (torch.bool, torch.uint8):
            timeline.begin_op("aten::nonzero")
            try:
                found = wrap(nonzero(index), state.memory)
            finally:
                timeline.end_op()
            expanded.extend(found.unbind(1))
        else:
            expanded.append(index)
    return expanded


@handles("index", "_unsafe_index")
def _index(operator, args, kwargs):
    source, indices = args
    return run(operator, (source, _expand_masks(indices)), kwargs)


@handles("index_put_", "index_put", "_index_put_impl_", "_unsafe_index_put")
def _index_put(operator, args, kwargs):
    target, indices, values, *rest = args
    accumulate = rest[0] if rest else kwargs.get("accumulate", False)
    masks = [i for i in indices if isinstance(i, torch.Tensor) and i.dtype in (torch.bool, torch.uint8)]
    on_host = not isinstance(values, VirtualTensor)
    if masks and not accumulate and on_host and values.numel() == 1 and len(masks) == len([i for i in indices if i is not None]) == 1:
        # A number from the host is written by masked_fill: nothing to count, no wait.
        def launch(inner_args, inner_kwargs, out):
            size = costs.nbytes(inner_args[0]) + costs.nbytes(inner_args[1][0])
            launch_all([costs.Kernel("elementwise_kernel(masked_fill)", "pointwise", size)])

        if target.inner.is_meta:
            launch((target.inner, [masks[0].inner]), {}, None)
            return target
        return run(operator, args, kwargs, launch)
    if on_host:
        values = values.to(DEVICE)  # a pageable copy, and its wait, even of one number
    expanded = _expand_masks(indices)
    if target.inner.is_meta:
        # Assumed counts of positions and of values may differ by rounding: only the time matters here.
        inner_args, _, _ = unwrap(operator, (target, expanded, values, *rest), {})
        launch_all(costs.kernels(operator.name, inner_args, kwargs, inner_args[0]))
        return target if operator.mutates else wrap(torch.empty_like(target.inner), state.memory)
    return run(operator, (target, expanded, values, *rest), kwargs)


# -- convolutions ---------------------------------------------------------------------------------


@handles("convolution_overrideable")
def _convolution(operator, args, kwargs):
    return run(_real(aten.convolution.default), args, kwargs)


@handles("convolution_backward_overrideable")
def _convolution_backward(operator, args, kwargs):
    grad, x, weight, stride, padding, dilation, transposed, output_padding, groups, mask = args
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    sizes = [channels] if mask[2] else None
    return run(_real(aten.convolution_backward.default),
               (grad, x, weight, sizes, stride, padding, dilation, transposed, output_padding, groups, mask), kwargs)


def _real(func) -> Operator:
    if func not in Operator.known:
        Operator.known[func] = Operator(func)
    return Operator.known[func]
