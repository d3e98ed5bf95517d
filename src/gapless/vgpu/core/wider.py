"""Values in dtypes that CUDA's kernels take and the CPU's do not: worked out in a wider dtype, then cast.

That is found out by trying: what the CPU has no kernel for is known to its operator from then on. Only the values are wide:
the kernels on the timeline, their bytes and the results are of the dtypes that the program has named.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import torch

from ..hardware.kernels.costs import tensors
from . import random_numbers, shapes

# Dtype → a wider one that the CPU computes in. Those that a message names together are widened together.
_FLOATING = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
_BOOLEAN = {torch.bool: torch.uint8}
_MISSING = re.compile(r"not implemented for '(\w+)'|FFT doesn't support tensors of type: (\w+)"
                      r"|CPU does not support (complex) inputs")
_BY_NAME = {"Half": _FLOATING, "BFloat16": _FLOATING, "ComplexHalf": _FLOATING, "Bool": _BOOLEAN}

_INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})

# Other dtypes than half and bfloat16 are for few operators, on any device: those of PyTorch's operator database, and what
# their backward passes call.
_WITH_BOOLEANS = frozenset({"abs", "trace"})
_WITH_COMPLEX_HALVES = frozenset("""
    acos acosh angle asin asinh atan atanh cos cosh cumprod div exp lerp log logaddexp mean nansum pow prod reciprocal
    rsqrt sigmoid sigmoid_backward sin sinh sqrt sum tan tanh tanh_backward trace _fft_c2c _fft_c2r _fft_r2c
""".split())
# The CPU has them in no wider dtype either: operator → (the dtypes that CUDA has, how it is done).
_OTHERWISE: dict[str, tuple[frozenset, Callable]] = {}

# The CPU has them in halves and is far off: coordinates are rounded where CUDA's kernel keeps them in float32 (ATen,
# cuda/GridSampler.cu, ``opmath_t``); a matrix exponential is infinite.
_FAR_OFF = frozenset({"grid_sampler_2d", "grid_sampler_3d", "grid_sampler_2d_backward", "grid_sampler_3d_backward",
                      "linalg_matrix_exp"})

# The CPU has them in float16, and where its processor does not the backward pass takes seconds. Sums in float32, rounded at
# the end, are cuDNN's too.
_SLOW = frozenset({"convolution", "convolution_backward"})

# CUDA has no halves either.
_NO_HALVES = re.compile(r"linalg_|cholesky|^lu_|_lu_|geqrf|orgqr|ormqr|triangular_solve|lstsq|^special_|cdist|pdist|ctc_loss"
                        r"|^bitwise_|^gcd|^lcm|bincount")


def known(name: str) -> dict:
    """What is known of the operator ``name`` before it is tried."""
    halves = (torch.float16, torch.bfloat16) if name in _FAR_OFF else (torch.float16,) if name in _SLOW else ()
    return dict.fromkeys(halves, _FLOATING)


def can(operator, args: tuple, error: RuntimeError) -> bool:
    """Whether ``error``, which the CPU raised, is of a dtype that CUDA has here; if so, ``operator`` knows from now on."""
    found = _MISSING.search(str(error))
    if found is None or needed(operator, args):
        return False
    dtype, name = _dtype(args), operator.name.removesuffix("_")
    table = _BY_NAME.get(next(filter(None, found.groups())))
    if name in _OTHERWISE and dtype in _OTHERWISE[name][0]:
        table = None
    elif table is None or (name not in _WITH_BOOLEANS if table is _BOOLEAN else
                           name not in _WITH_COMPLEX_HALVES if dtype == torch.complex32 else _NO_HALVES.search(name)):
        return False
    operator.wider = {**operator.wider, dtype: table}
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
        out = _narrow(_OTHERWISE[operator.name][1](*args, **kwargs), {}, {}, wanted)
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
    written = [each for argument in operator.written_of(args, kwargs) for each in tensors(argument)]
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


def otherwise(name: str, *dtypes: torch.dtype):
    """Decorator: the function stands for the operator in these dtypes."""

    def register(function: Callable):
        _OTHERWISE[name] = frozenset(dtypes), function
        return function

    return register


@otherwise("histc", *_INTEGERS)
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


@otherwise("nansum", torch.complex32, torch.complex64, torch.complex128)
def _nansum_of_complex(x, dim=None, keepdim=False, dtype=None, out=None):
    x = x.to(_FLOATING.get(x.dtype, x.dtype))
    return torch.where(x.isnan(), 0, x).sum(dim, keepdim, dtype=_FLOATING.get(dtype, dtype))
