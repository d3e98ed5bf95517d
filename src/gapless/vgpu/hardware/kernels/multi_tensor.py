"""The kernels of operators on lists of tensors, ``_foreach_*`` and ``_fused_*``: how many, and what each moves.

From ATen, ``cuda/MultiTensorApply.cuh``: a launch has a block for each chunk of a tensor, and ends when it has as many
tensors or as many blocks as its arguments have room for. That is 32 KiB where PyTorch was built for CUDA 13 and is new
enough, else 4 KiB: torch 2.11 for CUDA 13 launched on an H100 what 4 KiB give (200 tensors: SGD by lists 4 kernels, fused
Adam 8).
"""

from __future__ import annotations

import functools
from pathlib import Path

import torch

from ..times import geometry, streaming
from .costs import Kernel, nbytes, tensors

# How many tensors of a list one launch takes, by the number of lists; with a number for each tensor; and how many blocks.
SMALL = {1: 110, 2: 64, 3: 48, 4: 36, 5: 30}, {1: 96}, 320
LARGE = {1: 770, 2: 448, 3: 336, 4: 252, 5: 210}, {1: 672}, 2240
TENSORS_PER_CLEANUP = 512  # ForeachReduceOp.cu, MAX_TENSORS_PER_KERNEL
CHUNK_STEP = 4 * geometry.CHUNK_THREADS  # elements that a block works on at a time

# What a fused optimizer has besides parameters and gradients, which are its first two lists: the places of its states, all
# read and written (cuda/fused_adam_utils.cuh, FusedSgdKernel.cu, fused_adagrad_utils.cuh). Gradients are written too where
# the kernel divides them by a GradScaler's scale.
_STATES = {"_fused_adam_": (2, 3, 4), "_fused_adamw_": (2, 3, 4), "_fused_sgd_": (2,), "_fused_adagrad_": (2,)}
_NOT_READ = ("_foreach_copy_", "_foreach_zero_")  # their first list is only written
_REDUCTIONS = ("_foreach_norm", "_foreach_max", "_foreach_powsum")


@functools.cache
def limits() -> tuple[dict[int, int], dict[int, int], int]:
    """Those of this PyTorch: :data:`LARGE` where its header has them and it was not built for CUDA 12 or before."""
    header = Path(torch.__file__).parent / "include" / "ATen" / "native" / "cuda" / "MultiTensorApply.cuh"
    large = not header.is_file() or f"{{{LARGE[0][1]}, {LARGE[0][2]}," in header.read_text(encoding="utf-8")
    cuda = torch.version.cuda
    return SMALL if not large or (cuda is not None and int(cuda.split(".")[0]) < 13) else LARGE


def launches(sizes: list[int], most_tensors: int, most_blocks: int) -> list[int]:
    """The elements that each launch works on, of tensors of these ``sizes``."""
    found, here, blocks, count = [], 0, 0, 0
    for size in sizes:
        if not size:
            continue
        count += 1
        rest = -(-size // geometry.CHUNK)
        while rest:
            taken = min(most_blocks - blocks, rest)
            rest -= taken
            blocks += taken
            part = min(taken * geometry.CHUNK, size)
            size -= part
            here += part
            if blocks == most_blocks or (not rest and count == most_tensors):
                found.append(here)
                here, blocks, count = 0, 0, int(bool(rest))
    return [*found, here] if here else found


def _is_list(value) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], torch.Tensor)


def kernels(name: str, args: tuple, kwargs: dict, out) -> list[Kernel]:
    """The kernels of one call of the operator ``name`` (without ``aten::``)."""
    first = args[0]
    moved = written = 0
    if name in _STATES:
        states = [args[place] for place in _STATES[name] if _is_list(args[place])]
        depth = 2 + len(states)
        lists = [first, args[1], *states]
        written = sum(nbytes(t) for t in tensors(first, states))
        written += sum(nbytes(t) for t in args[1]) * (kwargs.get("grad_scale") is not None)
        moved = sum(nbytes(t) for t in tensors(args) if t.dim() == 0)  # the counts of steps
    else:
        lists = [each for each in args if _is_list(each)]
        results = tensors(out) if not name.endswith("_") and name not in _REDUCTIONS else []
        depth = len(lists) + bool(results)
        written = sum(nbytes(t) for t in results or (first if name.endswith("_") else tensors(out)))
        if name in _NOT_READ:
            moved -= sum(nbytes(t) for t in first)
    moved += sum(nbytes(t) for t in tensors(lists)) + written
    by_lists, with_numbers, most_blocks = limits()
    numbers = any(isinstance(each, (list, tuple)) and each and not isinstance(each[0], torch.Tensor) for each in args[1:])
    most_tensors = (with_numbers if numbers and depth in with_numbers else by_lists).get(depth, by_lists[5])
    sizes = [t.numel() for t in first]
    elements = max(sum(sizes), 1)
    steps = -(-min(max(sizes, default=0), geometry.CHUNK) // CHUNK_STEP)
    found = [_kernel(f"multi_tensor_apply_kernel({name})", moved * each / elements, steps)
             for each in launches(sizes, most_tensors, most_blocks)]
    return _with_cleanup(found, name, first, sizes) if name in _REDUCTIONS and found else found


def _kernel(name: str, moved: float, steps: int) -> Kernel:
    return Kernel(name, "optimizer", moved, problem=streaming.Chunks(moved, steps))


def _with_cleanup(found: list[Kernel], name: str, first: list, sizes: list[int]) -> list[Kernel]:
    """A reduction has a number for each chunk, in memory that is cleared first, and then kernels that take those of a tensor
    together, a block each (cuda/ForeachReduceOp.cu)."""
    numbers = len(sizes) * max(-(-size // geometry.CHUNK) for size in sizes) * 4
    cleanups = -(-len(first) // TENSORS_PER_CLEANUP)
    return [Kernel("Memset (Device)", "memset", numbers), *found,
            *(_kernel(f"cleanup_kernel({name})", numbers / cleanups, 1) for _ in range(cleanups))]
