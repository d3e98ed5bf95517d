"""Dtypes of PyTorch's operator database: what CUDA has is there, what it lacks is an error, and halves are near float32.

The truth is the CPU's result in a wider dtype, for the same rounded arguments.
"""

from __future__ import annotations

import warnings

import torch
from torch.utils._pytree import tree_leaves

import gapless

from .entries import EXCEPTIONS, NO_VALUES, find, full_name, move, op_db, placed

WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64,
         torch.bool: torch.int64, **dict.fromkeys((torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64), torch.float64)}

# Entry → why it is left out.
DTYPE_EXCEPTIONS = {
    **dict.fromkeys(("normal.in_place", "normal", "normal.number_mean", "uniform", "randn_like", "rand_like", "randn", "rand",
                     "nn.functional.rrelu", "multinomial"), "the numbers drawn are others in another dtype"),
    "nn.functional.soft_margin_loss": "its exponential overflows in float16, on CUDA too",
    "torch.ops.aten._flash_attention_forward": "CUDA's own kernel, which no other device has",
    "torch.ops.aten._efficient_attention_forward": "CUDA's own kernel, which no other device has",
    "nanmean": "of complex numbers: no truth, the CPU has it in no dtype",
    "nansum": "of complex numbers: no truth, the CPU has it in no dtype",
    **dict.fromkeys(("einsum", "inner", "tensordot"), "of integers, where it is products by elements, CUDA has it"),
    "as_strided.partial_views": "a cast copy of a view has not the storage that its samples read",
    "norm": "complex32 is refused by one of the kernels that CUDA makes it of",
    "norm.inf": "complex32 is refused by one of the kernels that CUDA makes it of",
    **dict.fromkeys(("scatter_reduce.prod", "scatter_reduce.amin", "scatter_reduce.amax"), "booleans work here, not on CUDA"),
    **dict.fromkeys(("torch._scaled_mm", "torch._scaled_mm_v2"), "two operands in float8_e5m2 work here, not on CUDA"),
}
_FAR = 32  # units in the last place of the largest result


def pairs() -> list[str]:
    """The entries that have a dtype on one device only."""
    return [full_name(op) for op in op_db if op.supported_dtypes("cuda") ^ op.supported_dtypes("cpu")
            and full_name(op) not in EXCEPTIONS and full_name(op) not in DTYPE_EXCEPTIONS]


def halves() -> list[str]:
    """The entries that CUDA has in float16 or bfloat16."""
    return [full_name(op) for op in op_db if op.supported_dtypes("cuda") & {torch.float16, torch.bfloat16}
            and full_name(op) not in EXCEPTIONS and full_name(op) not in DTYPE_EXCEPTIONS and op.name not in NO_VALUES]


def check_pairs(name: str, most_samples: int | None = None) -> tuple[int, int]:
    """(samples compared, of these those that are an error on CUDA and here)."""
    op, compared, refused = find(name), 0, 0
    cpu, cuda = op.supported_dtypes("cpu"), op.supported_dtypes("cuda")
    for dtype in sorted(cuda - cpu, key=str):
        compared += _near_the_truth(op, dtype, most_samples)
    for dtype in sorted(cpu - cuda, key=str):
        refused += _refused(op, dtype, most_samples)
    return compared + refused, refused


def check_halves(name: str, most_samples: int | None = None) -> tuple[int, int]:
    """(samples compared, 0)."""
    op = find(name)
    dtypes = op.supported_dtypes("cuda") & {torch.float16, torch.bfloat16}
    return sum(_near_the_truth(op, dtype, most_samples) for dtype in sorted(dtypes, key=str)), 0


def _samples(op, dtype, most_samples):
    for number, sample in enumerate(op.sample_inputs("cpu", dtype)):
        if number == most_samples:
            return
        yield number, sample


def _near_the_truth(op, dtype: torch.dtype, most_samples: int | None) -> int:
    device, compared = gapless.device("vgpu"), 0
    wider = WIDER.get(dtype, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, sample in _samples(op, dtype, most_samples):
            def wide(value):
                return value.to(wider) if isinstance(value, torch.Tensor) and value.dtype == dtype else value

            truth = sample.transform(wide)
            moved = sample.transform(lambda t: move(t, device) if isinstance(t, torch.Tensor) else t)
            try:
                torch.manual_seed(1)
                wanted = op(truth.input, *truth.args, **truth.kwargs)
            except Exception:
                continue
            torch.manual_seed(1)
            found = op(moved.input, *moved.args, **placed(op, moved.kwargs, device))
            _compare(found, wanted, dtype, f"{dtype}, sample {number}")
            compared += 1
    return compared


def _compare(found, wanted, dtype: torch.dtype, what: str) -> None:
    found, wanted = ([each for each in tree_leaves(tree) if isinstance(each, torch.Tensor)] for tree in (found, wanted))
    assert len(found) == len(wanted), what
    unit = torch.finfo(dtype).eps if dtype.is_floating_point or dtype.is_complex else 0.0
    for a, b in zip(found, wanted):
        assert a.shape == b.shape, f"{what}: {a.shape}, not {b.shape}"
        assert a.device.type == "vgpu", f"{what}: the result is on {a.device}"
        if not (b.is_floating_point() or b.is_complex()):
            continue  # positions of equal values, counts of rounded ones
        a, b = (each.to_dense() if each.is_sparse else each for each in (a.cpu(), b))
        a, b = (each.to(torch.complex128 if each.is_complex() else torch.float64) for each in (a, b))
        told = b.isfinite() & (b.abs() < 3e4)
        if told.any():
            far = (a - b).abs()[told].max() / b.abs()[told].max().clamp(min=1e-3)
            assert far <= _FAR * unit, f"{what}: {float(far):.2g} of the largest value off"


def _refused(op, dtype: torch.dtype, most_samples: int | None) -> int:
    device, refused = gapless.device("vgpu"), 0
    for number, sample in _samples(op, dtype, most_samples):
        tensors = [each for each in tree_leaves((sample.input, sample.args, sample.kwargs)) if isinstance(each, torch.Tensor)]
        try:
            wanted = op(sample.input, *sample.args, **sample.kwargs)
        except Exception:
            continue
        if not all(each.numel() for each in (*tensors, *tree_leaves(wanted)) if isinstance(each, torch.Tensor)):
            continue
        moved = sample.transform(lambda t: move(t, device) if isinstance(t, torch.Tensor) else t)
        try:
            op(moved.input, *moved.args, **placed(op, moved.kwargs, device))
        except (NotImplementedError, RuntimeError):
            refused += 1
        else:
            raise AssertionError(f"{dtype}, sample {number}: CUDA has no such kernel, and here it works")
    return refused


__all__ = ["DTYPE_EXCEPTIONS", "check_halves", "check_pairs", "halves", "pairs"]
