"""The fast path of ``nn.TransformerEncoder`` in evaluation: a layer as one operator, and padded sequences as nested tensors.

Nested tensors are here for that path only; others have ``layout=torch.jagged``, which PyTorch makes of dense tensors. A
layer's kernels are those of the operators that its operator calls (ATen, ``transformers/transformer.cpp`` and
``cuda/attention.cu``). Waits: whether a mask is aligned to the left is a comparison, the lengths come to the host, and
each layer sends their sums back, for queries and for keys (ATen, ``nested/NestedTensorMath.cpp`` and
``cuda/NestedTensorTransformerUtils.cpp``).
"""

# mypy: disable-error-code="call-arg"
# PyTorch's stubs lack what is used here.
from __future__ import annotations

import functools
import math

import torch
import torch.nn.functional as F
from torch.nested._internal.nested_tensor import nested_view_from_values_offsets

from ..core.dispatch import Operator, _dispatch, aside, handles, launch_all, read_back, run, unwrap, used
from ..core.tensor import VirtualTensor, wrap
from ..hardware.kernels import attention, costs
from ..hardware.times import geometry
from ..process.eager import eager
from ..process.imports import after_import
from ..process.state import DEVICE, state
from .copies import _copy_out, aten

SUMS_BYTES = 64


class NestedTensor(VirtualTensor):
    """A nested tensor on ``vgpu:0``. ``inner``: a nested CPU tensor. ``buffer``: its elements, one after the other."""

    buffer: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor):
        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.NestedTensor)
        self = torch.Tensor._make_wrapper_subclass(cls, (inner.size(0),), dtype=inner.dtype, device=DEVICE,
                                                   _extra_dispatch_keys=keys, dispatch_sizes_strides_policy="sizes")
        self.within, self.density = inner, None
        self.buffer = wrap(inner.values(), state.memory)
        self.allocation = None
        return self

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    @eager
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return dispatch(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents=None):
        return f"{self.cpu()!r}, device='{DEVICE}'"


_known: dict = {}


def dispatch(func, args, kwargs):
    """Run ``func`` on arguments of which one is nested. Raises NotImplementedError for what the fast path does not need."""
    if func in (aten.dim.default, aten.sym_size.default, aten.size.default, aten.sym_numel.default, aten.numel.default):
        inner = args[0].within
        return inner.dim() if func is aten.dim.default else inner.numel() if "numel" in func.name() else inner.size()
    operator = _known.get(func)
    if operator is None:
        operator = _known[func] = Operator(func)
        operator.handler = _handle
    if operator.composite:
        return func.decompose(*args, **kwargs)
    return _dispatch(operator, args, kwargs) if state.counting is None else aside(_dispatch, operator, args, kwargs)


def _handle(operator, args, kwargs):
    if operator.name not in _RULES:
        raise NotImplementedError(f"{operator.full_name} of a nested tensor is not supported on {DEVICE}: use "
                                  "layout=torch.jagged")
    return _RULES[operator.name](operator, args, kwargs)


# -- from a padded tensor, and back -------------------------------------------------------------------


@handles("_nested_tensor_from_mask_left_aligned")
def _left_aligned(operator, args, kwargs):
    inner_args, _, _ = unwrap(operator, args, kwargs)
    mask = inner_args[1]
    launch_all([costs.Kernel("CatArrayBatchedCopy", "pointwise", 2 * costs.nbytes(mask)),
                costs.Kernel("reduce_kernel(argmin)", "reduction", 4 * mask.numel(), work=(mask.shape[0], mask.shape[1])),
                costs.Kernel("DeviceScanKernel", "scan", 9 * mask.numel()),
                costs.Kernel("elementwise_kernel(equal)", "pointwise", 16 * mask.shape[0])])
    read_back(1)
    return True if mask.is_meta else operator.func(*inner_args)


@handles("_nested_tensor_from_mask")
def _from_mask(operator, args, kwargs):
    inner_args, inner_kwargs, _ = unwrap(operator, args, kwargs)
    padded, mask = inner_args[:2]
    if padded.is_meta:
        raise NotImplementedError("nested tensors are not supported in vgpu.shape_only(): nn.TransformerEncoder(…, "
                                  "enable_nested_tensor=False)")
    found = operator.func(*inner_args, **inner_kwargs)
    launch_all([costs.Kernel("DeviceScanKernel", "scan", 9 * mask.numel()),
                costs.Kernel("CatArrayBatchedCopy", "pointwise", 32 * mask.shape[0])])
    read_back(16 * mask.shape[0])
    _send()
    launch_all([costs.Kernel("remove_padding", "pointwise", 2 * costs.nbytes(found.values()))])
    out = NestedTensor(found)
    if state.watched:
        used(args, out.buffer)
    return out


def _send(blocking: bool = False) -> None:
    """Sums of lengths go to the device, by an operator of their own."""
    state.timeline.begin_op("aten::copy_")
    try:
        state.timeline.copy("HtoD", SUMS_BYTES, pinned=False, blocking=blocking)
    finally:
        state.timeline.end_op()


def _to_padded(operator, args, kwargs):
    inner = args[0].within
    out = operator.func(inner, *args[1:], **kwargs)
    _send()
    launch_all([costs.Kernel("add_padding", "pointwise", costs.nbytes(inner.values()) + costs.nbytes(out))])
    found = wrap(out, state.memory)
    if state.watched:
        used([args[0].buffer], found)
    return found


def _detach(operator, args, kwargs):
    return NestedTensor(args[0].within)


def _to_copy(operator, args, kwargs):
    source = args[0].within
    if (kwargs.get("device") or DEVICE).type == DEVICE.type:
        out = operator.func(source, **{name: value for name, value in kwargs.items() if name == "dtype"})
        launch_all(costs.kernels("copy_", (out.values(), source.values()), {}, out.values()))
        return NestedTensor(out)
    _copy_out(source.values(), bool(kwargs.get("non_blocking")), False)
    return source.clone().to(kwargs.get("dtype"))


def _unbind(operator, args, kwargs):
    return [wrap(each, state.memory) for each in operator.func(args[0].within, *args[1:])]


# -- layers -------------------------------------------------------------------------------------------


def _tokens(x: torch.Tensor) -> tuple[int, int, int]:
    """Tokens in all, sequences, and a length with which as many pairs of tokens meet in all."""
    if not x.is_nested:
        return x.shape[0] * x.shape[1], x.shape[0], x.shape[1]
    lengths = [each.shape[0] for each in x.unbind()]
    return sum(lengths), len(lengths), round(math.sqrt(sum(length**2 for length in lengths) / max(len(lengths), 1)))


def _meta(like: torch.Tensor, *shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=like.dtype, device="meta")


def _part(name: str, args: tuple, out) -> list[costs.Kernel]:
    """The kernels of one of the operators that a layer is made of. What their blocks share out is worked out here, of their
    own operands."""
    found = costs.kernels(name, args, {}, out)
    for kernel in found:
        kernel.work = geometry.work_of(kernel.kind, kernel.work, kernel.bytes, args, out)
    return found


def _linear(x: torch.Tensor, tokens: int, inputs: int, outputs: int) -> list[costs.Kernel]:
    operands = _meta(x, outputs), _meta(x, tokens, inputs), _meta(x, outputs, inputs).t()
    return _part("addmm", operands, _meta(x, tokens, outputs))


def _attention(x: torch.Tensor, width: int, heads: int, mask, weights: bool) -> list[costs.Kernel]:
    tokens, sequences, length = _tokens(x)
    if not tokens:
        return []
    each = _meta(x, sequences, heads, length, width // heads)
    if mask is None and not weights:
        inside = attention.kernels(each, each, each, None, False)[0]
    else:
        scores = _meta(x, sequences * heads, length, length)
        rows = _meta(x, sequences * heads, length, width // heads)
        inside = [costs.Kernel("transform_bias_rescale_qkv", "pointwise", 6 * costs.nbytes(each)),
                  *_part("bmm", (rows, rows.transpose(1, 2)), scores),
                  *_part("_softmax", (scores, -1, False), scores),
                  *_part("bmm", (scores, rows), rows)]
    return [*_linear(x, tokens, width, 3 * width), *inside, *_linear(x, tokens, width, width)]


@costs.kernels_of("_native_multi_head_attention")
def _attention_kernels(args, kwargs, out):
    query, _, _, width, heads, *_ = args
    mask = args[9] if len(args) > 9 else kwargs.get("mask")
    return _attention(query, width, heads, mask, bool(args[10] if len(args) > 10 else kwargs.get("need_weights", True)))


@costs.kernels_of("_transformer_encoder_layer_fwd")
def _layer_kernels(args, kwargs, out):
    x, width, heads = args[:3]
    tokens = _tokens(x)[0]
    if not tokens:
        return []
    rows, inner = _meta(x, tokens, width), args[14].shape[0]
    middle = _meta(x, tokens, inner)
    norm = _part("native_layer_norm", (rows, [width], _meta(x, width), _meta(x, width), 1e-5),
                 (rows, _meta(x, tokens), _meta(x, tokens)))
    add = _part("add_", (rows, rows), rows)
    mask = args[18] if len(args) > 18 else kwargs.get("mask")
    return [*_attention(x, width, heads, mask, False), *add, *norm, *_linear(x, tokens, width, inner),
            *_part("gelu" if args[7] else "relu", (middle,), middle), *_linear(x, tokens, inner, width), *add,
            *norm]


@handles("_transformer_encoder_layer_fwd")
def _layer(operator, args, kwargs):
    if not isinstance(args[0], NestedTensor):
        return run(operator, args, kwargs)
    inner_args, inner_kwargs, _ = unwrap(operator, args, kwargs)
    found = operator.func(*inner_args, **inner_kwargs)
    _send(blocking=True)  # where each sequence of queries begins, and of keys
    _send(blocking=True)
    launch_all(costs.kernels(operator.name, inner_args, inner_kwargs, found))
    out = NestedTensor(found)
    if state.watched:
        used([args[0].buffer], out.buffer)
    return out


# -- attention of jagged tensors ----------------------------------------------------------------------


def _attends(original):
    """PyTorch's attention of jagged tensors. CUDA has kernels for sequences of several lengths; here each is attended to by
    itself, after the lengths have been read, as CUDA's longest has."""

    @functools.wraps(original)
    def attend(query, key, value, attn_mask=None, *args, **kwargs):
        if attn_mask is not None or not isinstance(query._values, VirtualTensor) or query._ragged_idx != 2:
            return original(query, key, value, attn_mask, *args, **kwargs)
        rows = zip(query.unbind(), key.unbind(), value.unbind())
        found = [F.scaled_dot_product_attention(*(each.unsqueeze(0) for each in row), None, *args, **kwargs)
                 .squeeze(0).transpose(0, 1) for row in rows]
        return nested_view_from_values_offsets(torch.cat(found), query.offsets(), min_seqlen=query._maybe_min_seqlen,
                                               max_seqlen=query._maybe_max_seqlen).transpose(1, 2)

    return attend


def _change(ops) -> None:
    ops.jagged_scaled_dot_product_attention = _attends(ops.jagged_scaled_dot_product_attention)


def install() -> None:
    """Change what jagged tensors call."""
    after_import("torch.nested._internal.ops", _change)


_RULES = {"_transformer_encoder_layer_fwd": _layer, "to_padded_tensor": _to_padded, "detach": _detach, "_to_copy": _to_copy,
          "unbind": _unbind}
