"""What an operator was given, in the words of PyTorch's profiler with ``record_shapes``.

One entry for each argument of the operator's schema, defaults included: the sizes of a tensor (of each, for a list of
them), else nothing; nor for a list of indices, which may have holes. Strides and the values of numbers, which newer versions
of PyTorch add, are left out.
"""

from __future__ import annotations

import functools

import torch

# The names of C++ types, as the profiler writes them.
_TYPES = {
    torch.float32: "float", torch.float64: "double", torch.float16: "c10::Half", torch.bfloat16: "c10::BFloat16",
    torch.int64: "long int", torch.int32: "int", torch.int16: "short int", torch.int8: "signed char",
    torch.uint8: "unsigned char", torch.bool: "bool", torch.complex64: "c10::complex<float>",
    torch.complex128: "c10::complex<double>",
}
_SCALARS = (bool, int, float, complex)


def describe(func, args: tuple, kwargs: dict) -> dict:
    """``Input Dims`` and ``Input type`` of a call of the ``OpOverload`` ``func``."""
    given = [None if holes else args[place] if place < len(args) else kwargs.get(name, default)
             for place, (name, default, holes) in enumerate(_arguments(func))]
    return {"Input Dims": [_sizes(value) for value in given], "Input type": [_type(value) for value in given]}


def describe_tensors(tensors: list[torch.Tensor]) -> dict:
    """The same of some tensors."""
    return {"Input Dims": [_sizes(value) for value in tensors], "Input type": [_type(value) for value in tensors]}


@functools.cache
def _arguments(func) -> list[tuple]:
    """(name, default, whether it is a list that may have holes) of each argument."""
    return [(argument.name, argument.default_value, str(argument.type) == "List[Optional[Tensor]]")
            for argument in func._schema.arguments]


def _sizes(value) -> list:
    if isinstance(value, torch.Tensor):
        return list(value.shape)
    if _is_tensor_list(value):
        return [_sizes(item) for item in value]
    return []


def _type(value) -> str:
    if isinstance(value, torch.Tensor):
        return _TYPES.get(value.dtype, str(value.dtype))
    if isinstance(value, _SCALARS):
        return "Scalar"
    if _is_tensor_list(value):
        return "TensorList"
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, _SCALARS) for item in value):
        return "ScalarList"
    return ""


def _is_tensor_list(value) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], torch.Tensor)
