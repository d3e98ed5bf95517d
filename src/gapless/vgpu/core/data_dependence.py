"""Operators whose result tells of values without being a tensor of the device: by its sizes, or as a Python number.

On CUDA the host has to wait for those. The ones that programs use are listed in :mod:`..hardware.kernels.syncs` or have a
handler. Of the others it is found out: what PyTorch's shape-only kernels cannot tell from the forms of the arguments came
from their values.
"""

from __future__ import annotations

import re

import torch

from ..hardware.kernels import costs, syncs
from . import shapes

# Of those that answer with a number (PyTorch 2.14's registered operators, except for what is made of others): by form alone.
OF_FORM = frozenset({"_dimI", "_dimV", "_fused_sdp_choice", "_has_same_storage_numel", "_nested_get_ragged_idx",
                      "dense_dim", "is_coalesced", "is_pinned", "is_same_size", "is_set_to", "q_per_channel_axis", "qscheme",
                      "sparse_dim"})
# Their sizes are a matter of form, whatever PyTorch's tags and shape-only kernels say: ATen, cuda/EmbeddingBag.cu; and
# quantized/FakeQuantPerTensorAffine.cpp, where scale, zero point and whether to quantise at all stay on the device.
# The others of an inner kind have no shape-only kernels; their results are shaped as their arguments.
_KNOWN = frozenset("""
    _embedding_bag _embedding_bag_forward_only _fake_quantize_per_tensor_affine_cachemask_tensor_qparams _aminmax
    _compute_linear_combination _dirichlet_grad _sample_dirichlet _standard_gamma _standard_gamma_grad _logcumsumexp
    _masked_softmax _masked_softmax_backward _transform_bias_rescale_qkv _slow_conv2d_forward
""".split())
_TAGS = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)
# Not on CUDA: for the CPU alone, by their names, or by their entries in native_functions.yaml.
_CPU_ONLY = re.compile(r"(^|_)(mkldnn|fbgemm|nnpack|xnnpack|qnnpack|onednn)(_|$)|_for_cpu(_|$)|_cpu$|_?histogram(dd)?(_|$)"
                       r"|_spdiags$|_add_relu_?$|_dyn_quant_")


def is_cpu_only(name: str) -> bool:
    """Whether the operator (without ``aten::``) is one that CUDA has not."""
    return _CPU_ONLY.search(name) is not None


def number_places(schema) -> tuple:
    """The arguments of a schema that are no tensors, as (place, name): a tensor that stands there is read as a number."""
    return tuple((place, argument.name) for place, argument in enumerate(schema.arguments)
                 if "Tensor" not in str(argument.type))


def read_numbers(places: tuple, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The arguments, with each tensor at one of ``places`` read as a number: a wait, if it is of the device."""
    for place, name in places:
        if place < len(args):
            found = _read(args[place])
            if found is not args[place]:
                args = (*args[:place], found, *args[place + 1:])
        elif name in kwargs:
            found = _read(kwargs[name])
            if found is not kwargs[name]:
                kwargs = {**kwargs, name: found}
    return args, kwargs


def _read(value):
    if isinstance(value, torch.Tensor):
        return value.item()
    if type(value) in (list, tuple) and any(isinstance(each, torch.Tensor) for each in value):
        return type(value)(each.item() if isinstance(each, torch.Tensor) else each for each in value)
    return value


def is_doubtful(func) -> bool:
    """Whether the result of ``func``, an OpOverload, may tell of values, and nobody has said how often that makes the host
    wait: one of PyTorch's inner operators, one that its tags say so of, or one that answers with a number."""
    name = func._schema.name.split("::", 1)[1]
    if name in costs.RULES or syncs.is_known(name) or (name in _KNOWN and func._overloadname == "default"):
        return False
    if any(tag in func.tags for tag in (torch.Tag.core, torch.Tag.pointwise, torch.Tag.reduction)):
        return any(tag in func.tags for tag in _TAGS)
    return (name.startswith("_") or any(tag in func.tags for tag in _TAGS)
            or any("Tensor" not in str(each.type) for each in func._schema.returns))


def tells_values(operator, args: tuple, kwargs: dict, out) -> bool:
    """Whether ``out`` of a doubtful operator, worked out on CPU tensors, depends on their values in more than its
    elements."""
    numbers = _numbers(out)
    if not costs.tensors(out):
        return bool(numbers) and operator.name not in OF_FORM
    if any(tag in operator.func.tags for tag in _TAGS):
        return True
    if not costs.tensors((args, kwargs)):
        return False  # made only of numbers
    try:
        found = shapes.alone(operator.func, args, kwargs)
    except (RuntimeError, TypeError, NotImplementedError, ValueError, IndexError):
        return True  # no shape-only kernel: nobody's program needs it, and who knows what it tells
    return _forms(out) != _forms(found) or numbers != _numbers(found)


def _forms(out) -> list:
    return [(tuple(each.shape), each.dtype) for each in costs.tensors(out)]


def _numbers(out) -> list:
    if isinstance(out, (list, tuple)):
        return [number for each in out for number in _numbers(each)]
    return [out] if isinstance(out, (bool, int, float, complex)) else []
