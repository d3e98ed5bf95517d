"""Values in dtypes that CUDA's kernels take and the CPU's do not: worked out in a wider dtype, then cast.

That is found out by trying: what the CPU has no kernel for is known to its operator from then on. Only the values are wide:
the kernels on the timeline, their bytes and the results are of the dtypes that the program has named.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import torch

from . import random_numbers, shapes
from .hardware.costs import tensors

# Dtype → a wider one that the CPU computes in. Those that a message names together are widened together.
_FLOATING = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
_BOOLEAN = {torch.bool: torch.uint8}
_MISSING = re.compile(r"not implemented for '(\w+)'|FFT doesn't support tensors of type: (\w+)"
                      r"|CPU does not support (complex) inputs")
_BY_NAME = {"Half": _FLOATING, "BFloat16": _FLOATING, "ComplexHalf": _FLOATING, "Bool": _BOOLEAN}

# Boolean and integer tensors are for few operators, on any device. Operator → how it is done where the CPU cannot.
_WITH_BOOLEANS = frozenset({"abs", "abs_", "trace"})
_OTHERWISE: dict[str, Callable] = {}

# Neither device has them in these dtypes: LAPACK's and its relatives', and what CUDA has for whole and double words only.
_NEITHER = re.compile(r"linalg_|cholesky|^lu_|_lu_|geqrf|orgqr|ormqr|triangular_solve|lstsq|^igamma|^special_|histogram")


def can(operator, args: tuple, error: RuntimeError) -> bool:
    """Whether ``error``, which the CPU raised, is of a dtype that CUDA has here; if so, ``operator`` knows from now on."""
    found = _MISSING.search(str(error))
    if found is None or needed(operator, args) or _NEITHER.search(operator.name):
        return False
    name = next(filter(None, found.groups()))
    table = _BY_NAME.get(name)
    if operator.name in _OTHERWISE:
        table = None
    elif table is None or table is _BOOLEAN and operator.name not in _WITH_BOOLEANS:
        return False
    operator.wider = {**operator.wider, _dtype(args): table}
    return True


def _dtype(args: tuple) -> torch.dtype | None:
    """Of the first tensor in the arguments."""
    for value in args:
        if type(value) in (list, tuple) and value:
            value = value[0]
        if isinstance(value, torch.Tensor):
            return value.dtype
    return None


def needed(operator, args: tuple) -> bool:
    """Whether the CPU is known to have no kernel of ``operator`` for such arguments."""
    return _dtype(args) in operator.wider


def compute(operator, args: tuple, kwargs: dict, call: Callable):
    """What ``call(operator, args, kwargs)`` would give, had the CPU a kernel for it."""
    wanted = iter(_dtypes(operator, args, kwargs))
    table = operator.wider[_dtype(args)]
    if table is None:
        out = _narrow(_OTHERWISE[operator.name](*args, **kwargs), {}, {}, wanted)
        return out if kwargs.get("out") is None else _write(kwargs["out"], out)
    wide: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # id of a wide tensor → it, and the one that it stands for
    wide_args = _widen(args, table, wide)
    wide_kwargs = {name: _widen(value, table, wide) for name, value in kwargs.items()}
    out = call(operator, wide_args, wide_kwargs)
    for place, name in operator.written:
        for written in tensors(wide_args[place] if place < len(wide_args) else wide_kwargs.get(name)):
            if id(written) in wide:
                _write(wide[id(written)][1], written)
    return _narrow(out, {each: narrow for narrow, each in table.items() if _uses((args, kwargs), narrow)}, wide,
                   wanted)


def _widen(value, table: dict, wide: dict):
    if isinstance(value, torch.Tensor):
        if value.dtype not in table:
            return value
        made = value.to(table[value.dtype])
        wide[id(made)] = made, value
        return made
    if type(value) in (list, tuple):
        return type(value)([_widen(each, table, wide) for each in value])
    return table.get(value, value) if isinstance(value, torch.dtype) else value


def _write(target: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    if target.shape != values.shape:  # an ``out`` that the operator has resized
        target.resize_(values.shape)
    return target.copy_(values)


def _uses(value, dtype: torch.dtype) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if type(value) in (list, tuple):
        return any(_uses(each, dtype) for each in value)
    return value == dtype if isinstance(value, torch.dtype) else isinstance(value, torch.Tensor) and value.dtype == dtype


def _dtypes(operator, args: tuple, kwargs: dict) -> list:
    """Of the results, as PyTorch's shape-only kernels tell; none where they cannot."""
    try:
        return [each.dtype for each in tensors(shapes.alone(operator.func, args, kwargs))]
    except (RuntimeError, TypeError, ValueError, IndexError):
        return []


def _narrow(out, table: dict, wide: dict, wanted):
    """The results in the dtypes ``wanted``, else those that the arguments had; what was written in place as it came in."""
    if isinstance(out, torch.Tensor):
        dtype = next(wanted, table.get(out.dtype, out.dtype))
        return wide[id(out)][1] if id(out) in wide else out.to(dtype)
    if isinstance(out, (list, tuple)):
        return type(out)([_narrow(each, table, wide, wanted) for each in out])
    return out


# -- operators that may have written or drawn something before they raise --------------------------


def unproven(operator, args: tuple) -> bool:
    """Whether ``operator``, which writes to its arguments or draws numbers, has not yet done so for such arguments."""
    return _dtype(args) not in operator.proven


def first(operator, args: tuple, kwargs: dict, call: Callable):
    """``call(operator, args, kwargs)``; should it raise, its arguments and the generator are as they were."""
    written = [each for place, name in operator.written
               for each in tensors(args[place] if place < len(args) else kwargs.get(name))]
    before = [each.clone() for each in written]
    generator = random_numbers.of(args, kwargs) if operator.draws else None
    drawn = generator.get_state() if operator.draws else None
    try:
        out = call(operator, args, kwargs)
    except RuntimeError:
        for each, copy in zip(written, before):
            if each.shape == copy.shape:
                each.copy_(copy)
        if operator.draws:
            generator.set_state(drawn)
        raise
    operator.proven = operator.proven | {_dtype(args)}
    return out


# -- operators that the CPU has in no wider dtype either -------------------------------------------


def otherwise(name: str):
    """Decorator: the function stands for the operator where the CPU has no kernel."""

    def register(function: Callable):
        _OTHERWISE[name] = function
        return function

    return register


@otherwise("histc")
def _histc_of_integers(x, bins=100, min=0, max=0, out=None):
    """ATen, cuda/SummaryOps.cu, ``getBin``: in whole numbers, where a float's rounding would choose another bin."""
    lowest, highest = int(min), int(max)
    if lowest == highest and x.numel():
        lowest, highest = int(x.min()), int(x.max())
    if lowest == highest:
        lowest, highest = lowest - 1, highest + 1
    x = x.reshape(-1).long()
    x = x[(x >= lowest) & (x <= highest)]
    places = ((x - lowest) * bins).div(highest - lowest, rounding_mode="trunc").clamp(max=bins - 1)
    return places.bincount(minlength=bins)


@otherwise("nansum")
def _nansum_of_complex(x, dim=None, keepdim=False, dtype=None, out=None):
    x = x.to(_FLOATING.get(x.dtype, x.dtype))
    return torch.where(x.isnan(), 0, x).sum(dim, keepdim, dtype=_FLOATING.get(dtype, dtype))
