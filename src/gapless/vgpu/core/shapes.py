"""What operators give on tensors without values, remembered by what they were given.

Without values a result is a shape, strides and a dtype. PyTorch works these out in C++ for some operators and in Python
for others, which takes up to a millisecond, and a training step asks the same again and again. (FakeTensorMode has a cache
for the same reason.)
"""

from __future__ import annotations

import torch

from ..hardware.kernels import costs
from ..hardware.times import precision
from ..hardware.times.layout import channels_last

_MOST_RECIPES = 20_000  # more than the steps of a program have; one whose shapes keep changing begins again

_recipes: dict = {}
_kernels: dict = {}

_PLAIN = frozenset({type(None), bool, int, float, complex, str, torch.dtype, torch.device, torch.layout,
                    torch.memory_format})
_NOTHING = ("nothing",)


class _Unknown(Exception):
    """Neither a key nor a recipe can be made of this."""


def remembered(func, args: tuple, kwargs: dict):
    """``func(*args, **kwargs)`` on meta tensors, worked out for the first call and made again for those like it; and the key
    under which it is remembered, None where it is not.

    That holds for results with memory of their own, and for arguments written in place. Anything else (a view, memory
    larger than its elements, an argument whose shape changes, a number) is worked out each time.
    """
    try:
        # A factory without a dtype takes the default one.
        key = (func, torch.get_default_dtype(), _key(args, _meta), _key(tuple(kwargs.items()), _meta))
    except _Unknown:
        return func(*args, **kwargs), None
    recipe = _recipes.get(key)
    if recipe is not None:
        return _made(recipe, args), key
    out = _as_cudnn_lays_out(func, args, func(*args, **kwargs))
    if _key(args, _meta) != key[2]:  # it has given an argument another shape, and must do so again
        return out, None
    try:
        recipe = _recipe(out, args, _memories((args, tuple(kwargs.values()))))
    except _Unknown:
        return out, None
    if len(_recipes) >= _MOST_RECIPES:
        _recipes.clear()
        _kernels.clear()
    _recipes[key] = recipe
    return out, key


def alone(func, args: tuple, kwargs: dict):
    """What ``func`` would give on tensors like these without values. Raises what PyTorch's shape-only kernel raises."""
    return remembered(func, tuple(_without_values(each) for each in args),
                      {name: _without_values(each) for name, each in kwargs.items() if name != "generator"})[0]


def _without_values(value):
    if isinstance(value, torch.Tensor):
        return value if value.is_meta else torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if type(value) in (list, tuple):
        return type(value)(_without_values(each) for each in value)
    if isinstance(value, torch.device):
        return torch.device("meta")
    return value


def kernels(key: tuple | None, name: str, args: tuple, kwargs: dict, out) -> list[costs.Kernel]:
    """The kernels of the operator ``name``; worked out once for calls alike (``key``: this one's, of :func:`remembered`;
    None: it is made here, of the arguments and the result)."""
    if key is None:
        if name in costs.BY_VALUES:
            return costs.kernels(name, args, kwargs, out)
        try:
            key = (name, tuple([_form(each) if type(each) is torch.Tensor else _key(each, _form) for each in args]),
                   _form(out) if type(out) is torch.Tensor else _key(out, _form),
                   _key(tuple(kwargs.items()), _form) if kwargs else ())
        except (_Unknown, RuntimeError):  # a tensor that is not dense has no strides
            return costs.kernels(name, args, kwargs, out)
    if name in costs.RULES:  # what has none computes nothing that a switch could change
        key = (key, precision.switches())
    found = _kernels.get(key)
    if found is None:
        if len(_kernels) >= _MOST_RECIPES:
            _kernels.clear()
        found = _kernels[key] = costs.kernels(name, args, kwargs, out)
    return found


_CONVOLUTIONS = {torch.ops.aten.convolution.default: slice(0, 2), torch.ops.aten.convolution_backward.default: slice(1, 3)}


def _as_cudnn_lays_out(func, args: tuple, out):
    """The result in channels-last order where cuDNN takes that: of a convolution with images or weights in it (ATen,
    ``ConvUtils.h``, ``cudnn_conv_suggest_memory_format``). Without a device PyTorch's own meta function cannot tell."""
    operands = args[_CONVOLUTIONS[func]] if func in _CONVOLUTIONS else ()
    if not operands or operands[0].dim() != 4:
        return out
    form = torch.channels_last if channels_last(*operands) else torch.contiguous_format

    def laid_out(tensor):
        return tensor.contiguous(memory_format=form) if tensor is not None and tensor.dim() == 4 else tensor

    return laid_out(out) if isinstance(out, torch.Tensor) else tuple(map(laid_out, out))


def has_no_values(args: tuple) -> bool:
    """Whether the first of ``args``, or the first in it where it is a list, is a tensor without values."""
    first = args[0] if args else None
    if type(first) in (list, tuple) and first:
        first = first[0]
    return isinstance(first, torch.Tensor) and first.is_meta


def _key(value, of_tensor):
    """What of ``value`` a result may depend on, of a tensor what ``of_tensor`` says."""
    kind = type(value)
    if kind is torch.Tensor:
        return of_tensor(value)
    if kind is tuple or kind is list or kind is torch.Size:
        return tuple([_key(item, of_tensor) for item in value])
    if kind in _PLAIN:
        return kind, value  # the kind too: 1 == 1.0 == True
    raise _Unknown


def _meta(tensor: torch.Tensor) -> tuple:
    if not tensor.is_meta or tensor.is_neg() or tensor.is_conj():
        raise _Unknown
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.storage_offset()


def _form(tensor: torch.Tensor) -> tuple:
    return tensor.shape, tensor.stride(), tensor.dtype


def _memories(value) -> set[int]:
    """The storages of all tensors in ``value``."""
    if isinstance(value, torch.Tensor):
        return {value.untyped_storage()._cdata}
    if isinstance(value, (tuple, list)):
        return set().union(*map(_memories, value))
    return set()


def _recipe(out, args: tuple, taken: set[int]):
    """How to make ``out`` again. ``taken``: storages that a new tensor may not share; those of ``out`` are added."""
    if out is None:
        return _NOTHING
    if type(out) is torch.Tensor:
        for place, argument in enumerate(args):
            if out is argument:
                return "argument", place
        plain = out.is_meta and out.layout is torch.strided and not (out.is_neg() or out.is_conj() or out.storage_offset())
        if not plain or out.untyped_storage()._cdata in taken:
            raise _Unknown
        again = torch.empty_strided(out.shape, out.stride(), dtype=out.dtype, device="meta")
        if again.untyped_storage().nbytes() != out.untyped_storage().nbytes():
            raise _Unknown
        taken.add(out.untyped_storage()._cdata)
        return "tensor", out.shape, out.stride(), out.dtype
    if type(out) in (tuple, list):
        return "several", type(out), [_recipe(item, args, taken) for item in out]
    raise _Unknown


def _made(recipe: tuple, args: tuple):
    kind = recipe[0]
    if kind == "tensor":
        return torch.empty_strided(recipe[1], recipe[2], dtype=recipe[3], device="meta")
    if kind == "several":
        return recipe[1]([_made(item, args) for item in recipe[2]])
    return args[recipe[1]] if kind == "argument" else None
