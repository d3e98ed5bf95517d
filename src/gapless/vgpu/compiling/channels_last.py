"""Inductor's layout optimisation: where a graph has convolutions enough, feature maps lie in channels-last order.

``torch/_inductor/graph.py``, ``GraphLowering.decide_layout_opt``, says for which graphs, ``lowering.py`` and
``kernel/conv.py`` what follows: each convolution's operands are brought into that order, whose copy goes into the loop that
computes them; what is elementwise after a convolution keeps its order. The program's own tensors stay as they are.
"""

from __future__ import annotations

import math

from .lowering import LIBRARIES, Call, Form, forms

CONVOLUTIONS = ("convolution", "_convolution", "cudnn_convolution", "convolution_overrideable")
BACKWARD = ("convolution_backward", "convolution_backward_overrideable")
_ALONG = ("native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update", "cat",
          "native_batch_norm_backward", "cudnn_batch_norm_backward", "batch_norm_backward")

# How long a convolution takes in channels-last order, by its kind (decide_layout_opt, for inference).
_GROUPED, _DEFAULT, _NARROWING, _SMALL = 1.358, 0.823, 0.725, 0.783
_NODES_OF_CALL = 1.5  # nodes of PyTorch's graph (views too) for one operator that launches: an assumption
_CALLS_A_CONVOLUTION = 300


def wanted(calls: list[Call], training: bool) -> bool:
    """Whether a forward graph of these ``calls`` gets channels-last feature maps."""
    found = [call for call in calls if call.name in CONVOLUTIONS and len(call.args[0].shape) == 4]
    if not found or len(calls) * _NODES_OF_CALL >= _CALLS_A_CONVOLUTION * len(found):
        return False
    kinds = [_kind(call) for call in found]
    if training:
        narrowing = any(_narrows(call.args[1]) for call in found)
        return not (_GROUPED in kinds or narrowing or all(_is_small(call.args[1]) for call in found))
    flops = [call.written[0].numel * math.prod(call.args[1].shape[1:]) for call in found]
    return sum(kind * count for kind, count in zip(kinds, flops)) <= sum(flops)


def _kind(call: Call) -> float:
    weight = call.args[1]
    if call.args[-1] > 1 and weight.shape[1] > 1:
        return _GROUPED
    if _is_small(weight):
        return _SMALL
    return _NARROWING if _narrows(weight) else _DEFAULT


def _is_small(weight: Form) -> bool:
    return weight.shape[0] <= 64 and weight.shape[1] <= 64


def _narrows(weight: Form) -> bool:
    return weight.shape[0] * 2 <= weight.shape[1] and weight.shape[2] > 1


def laid_out(calls: list[Call]) -> list[Call]:
    """The ``calls`` with their feature maps in channels-last order, and a copy before each convolution of what is not."""
    fixed = {form.buffer for call in calls for form in call.written
             if call.name not in CONVOLUTIONS + BACKWARD and not LIBRARIES.isdisjoint(call.kinds)}
    made = {form.buffer for call in calls for form in call.written}
    maps: dict[int, tuple[int, ...]] = {}  # block → the shape of its feature map
    before = -1
    while len(maps) != before:
        before = len(maps)
        for call in calls:
            convolves = call.name in CONVOLUTIONS or call.name in BACKWARD
            found = [form for form in (*forms(call.args), *call.written) if _is_map(form)]
            if not convolves and not any(form.buffer in maps for form in found):
                continue
            if not convolves and not _goes_along(call, found):
                continue
            for form in found:
                if form.buffer not in fixed and (form.buffer in made or call.name in BACKWARD):
                    maps.setdefault(form.buffer, form.shape)
    found = [Call(call.name, _turned(call.args, maps), _turned(call.out, maps), _turned(call.written, maps), call.kinds)
             for call in calls]
    return [call._replace(args=tuple([_in_order(each) for each in call.args[:3]]) + call.args[3:])
            if call.name in CONVOLUTIONS + BACKWARD else call for call in found]


def _in_order(form):
    """A convolution's operand, as a convolution has it: the program's own is copied first."""
    if not isinstance(form, Form) or len(form.shape) != 4 or not form.is_contiguous:
        return form
    return turned(form, form.shape)._replace(copied=True)


def _is_map(form: Form) -> bool:
    return len(form.shape) == 4 and form.whole and form.is_contiguous and form.numel > 1


def _goes_along(call: Call, maps: list[Form]) -> bool:
    if call.name in _ALONG or "pool" in call.name or "upsample" in call.name:
        return True
    return all(kind in ("pointwise", "memset") for kind in call.kinds) and len({form.shape for form in maps}) == 1


def _turned(value, maps: dict[int, tuple[int, ...]]):
    if isinstance(value, Form):
        return turned(value, maps[value.buffer]) if value.buffer in maps else value
    return tuple([_turned(each, maps) for each in value]) if isinstance(value, tuple) else value


def turned(form: Form, shape: tuple[int, ...]) -> Form:
    """``form``, a view of a feature map of ``shape`` (batch, channels, height, width), where that lies in channels-last
    order."""
    _, channels, height, width = shape
    area = height * width
    strides = []
    for size, stride in zip(form.shape, form.strides):
        if size == 1 or stride == 0 or stride >= channels * area:
            strides.append(stride)
        elif stride >= area:
            strides.append(stride // area)
        else:
            strides.append(stride * channels)
    return form._replace(strides=tuple(strides))
