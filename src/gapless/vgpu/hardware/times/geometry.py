"""How many blocks and threads a kernel is launched with, and how much of the card they fill.

Sources: elementwise kernels, gathers and scatters have 128 threads a block and 4 elements a thread (ATen,
cuda/thread_constants.h); reductions follow ATen's cuda/Reduce.cuh; multi-tensor kernels have a block of 512 threads for
each 65 536 elements of a tensor (MultiTensorApply.cuh); LayerNorm has a block of 128 threads for each row
(layer_norm_kernel.cu); fused attention one of 128 threads for 128 rows of queries (FlashAttention-2). The formulas of
"blocks per SM", "warps per SM" and "est. achieved occupancy %" are Kineto's.

Assumptions: products and convolutions work on tiles of 128×128 results with 256 threads where that gives every SM a
block, else on tiles of 64×64 with 128; a weight gradient splits its sum until every SM has a block; such kernels and
attention take 128 registers a thread, so that an SM holds 512 of their threads (of other kernels as many as the card's
limits allow); other normalisations have a block of 512 threads for each mean; CUB's sorts and scans have 256 threads a
block and 16 elements a thread; ATen's reductions run along contiguous memory and load one element at a time. Not
modelled: registers and shared memory otherwise, clusters, the choices of cuBLAS and cuDNN. Modelled times do not depend
on any of it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch

from ..cards.specs import Card

WARP = 32
REGISTERS_PER_SM = 65_536

# Compute capability → threads and blocks that an SM holds, and its shared memory in KiB (CUDA C++ programming guide,
# "technical specifications per compute capability").
LIMITS = {
    (7, 0): (2048, 32, 96),
    (7, 5): (1024, 16, 64),
    (8, 0): (2048, 32, 164),
    (8, 6): (1536, 16, 100),
    (8, 9): (1536, 24, 100),
    (9, 0): (2048, 32, 228),
    (10, 0): (2048, 32, 228),
    (12, 0): (1536, 24, 100),
}

# Compute capability → float32 lanes of an SM (the same guide, "arithmetic instructions").
LANES = {(7, 0): 64, (7, 5): 64, (8, 0): 64, (8, 6): 128, (8, 9): 128, (9, 0): 128, (10, 0): 128, (12, 0): 128}

THREADS, ELEMENTS_PER_THREAD = 128, 4
CUB_THREADS, CUB_ELEMENTS = 256, 16
CHUNK, CHUNK_THREADS = 65_536, 512
TILES = ((128, 256), (64, 128))  # (side, threads)
TILE_REGISTERS = 128
NORM_THREADS, ROW_THREADS = 512, 128
ATTENTION_ROWS = 128
REDUCTION_THREADS = 512

Work = tuple[int, ...]
# What a kernel works on, or how to find that from the operator's arguments and result. By kind: matmul, convolution and
# attention (rows, columns, matrices, terms of the sum that may be split); reduction (results, elements of each);
# normalization (blocks, threads); optimizer (blocks); any other (elements).
WorkRule = Callable[[tuple, object], Work] | Work


def lanes(card: Card) -> int:
    """float32 lanes of an SM of ``card``; of the nearest older compute capability where the card's is not in the table."""
    return _lanes(tuple(card.compute_capability))


@functools.cache
def _lanes(capability: tuple[int, int]) -> int:
    return LANES[max((known for known in LANES if known <= capability), default=min(LANES))]


def clock_hz(card: Card) -> float:
    """The clock at which ``card`` would reach its float32 peak: a slowed card's is slower."""
    return card.peak_flops["float32"] / (2 * card.sm_count * lanes(card))


def cycle_s(card: Card) -> float:
    """Seconds of one cycle at that clock."""
    return 1 / clock_hz(card)


def limits(card: Card) -> tuple[int, int, int]:
    """Threads and blocks that an SM of ``card`` holds, and KiB of shared memory; of the nearest older compute capability
    where the card's is not in the table."""
    return _limits(tuple(card.compute_capability))


def _limits(capability: tuple[int, ...]) -> tuple[int, int, int]:
    return LIMITS[max((known for known in LIMITS if known <= capability), default=min(LIMITS))]


def launch(kind: str, work: Work, sm_count: int) -> tuple[int, int]:
    """(blocks, threads a block) of a kernel of ``kind`` on a card with ``sm_count`` SMs and 2048 threads each."""
    if kind in ("matmul", "convolution"):
        return _tiles(*work, sm_count=sm_count)
    if kind == "attention":
        rows, _, matrices = work
        return _up(rows, ATTENTION_ROWS) * matrices, ROW_THREADS
    if kind == "reduction":
        return _reduction(*work, sm_count=sm_count)
    if kind == "normalization":
        return max(work[0], 1), work[1]
    if kind == "optimizer":
        return max(work[0], 1), CHUNK_THREADS
    if kind in ("sort", "scan"):
        return _up(work[0], CUB_THREADS * CUB_ELEMENTS), CUB_THREADS
    return _up(work[0], THREADS * ELEMENTS_PER_THREAD), THREADS


def event_args(kind: str, work: Work, card: Card) -> dict:
    """What Kineto says of a kernel's launch, under its names. ``est. achieved occupancy %`` is a whole number, as there.

    Kernels alike share the result: do not change it.
    """
    return _event_args(kind, work, card.sm_count, tuple(card.compute_capability))


@functools.lru_cache(maxsize=4096)
def _event_args(kind: str, work: Work, sm_count: int, capability: tuple[int, int]) -> dict:
    blocks, threads = launch(kind, work, sm_count)
    threads_per_sm, most_blocks, _ = _limits(capability)
    resident = min(most_blocks, threads_per_sm // threads)
    if kind in ("matmul", "convolution", "attention"):
        resident = min(resident, REGISTERS_PER_SM // (TILE_REGISTERS * threads))
    blocks_per_sm = blocks / sm_count
    occupancy = min(blocks_per_sm, resident) * threads / threads_per_sm
    return {"blocks per SM": blocks_per_sm, "warps per SM": blocks_per_sm * threads / WARP, "grid": [blocks, 1, 1],
            "block": [threads, 1, 1], "est. achieved occupancy %": int(0.5 + 100 * occupancy)}


def _tiles(rows: int, columns: int, matrices: int = 1, terms: int = 0, *, sm_count: int) -> tuple[int, int]:
    for side, threads in TILES:  # noqa: B007  both are read behind the loop
        blocks = _up(rows, side) * _up(columns, side) * max(matrices, 1)
        if blocks >= sm_count:
            break
    if terms:
        # A share of the sum is at least a tile deep.
        blocks *= min(_up(sm_count, blocks), _up(terms, side))
    return blocks, threads


def _reduction(results: int, elements: int, *, sm_count: int) -> tuple[int, int]:
    """ATen's ``setReduceConfig`` for a sum along contiguous memory."""
    results, elements = max(results, 1), max(elements, 1)
    widest, highest = (min(_power_of_2(size), REDUCTION_THREADS) for size in (elements, results))
    height = min(highest, REDUCTION_THREADS // min(widest, WARP))
    width = min(widest, REDUCTION_THREADS // height)
    each = _up(elements, width)  # elements of a thread
    if each >= 16 * height or each >= 256:
        each = _up(each, height)
        blocks = results
        wanted = sm_count * (2048 // (width * height))
        if each >= 16 and blocks <= wanted:
            # The threads of several blocks share a result, each with 16 to 256 elements.
            blocks *= max(min(_up(wanted, blocks), _up(each, 16)), _up(each, 256))
    else:
        blocks = _up(results, height)
    return blocks, width * height


def _up(count: int, size: int) -> int:
    """How many parts of ``size`` hold ``count``, at least one."""
    return max(1, -(-count // size))


def _power_of_2(count: int) -> int:
    return 1 << (count.bit_length() - 1)


# -- what a kernel works on -------------------------------------------------------------------------


def work_of(kind: str, rule: WorkRule | None, nbytes: float, args: tuple, out: object) -> Work:
    """What a kernel of ``kind`` works on, by its ``rule``, else from the operator's arguments and result, else from the
    bytes that it moves (float32, read and written)."""
    if rule is not None:
        return rule if isinstance(rule, tuple) else rule(args, out)
    results, given = _tensors(out), _tensors(args)
    if not (results or given):
        return (int(nbytes) // 8,)
    if kind == "matmul":
        return product(args, out)
    if kind == "reduction":
        elements, count = (given or results)[0].numel(), results[0].numel() if results else 1
        return count, elements // max(count, 1)
    if kind == "normalization":
        # A block for each number that it keeps (a norm, a mean); where it keeps none, enough for its elements.
        return (results[1].numel() if len(results) > 1 else _up((results or given)[0].numel(), NORM_THREADS)), NORM_THREADS
    if kind == "optimizer":
        largest = max((a for a in args if isinstance(a, (list, tuple))), key=len, default=())
        return (sum(_up(t.numel(), CHUNK) for t in largest if isinstance(t, torch.Tensor)),)
    if kind in ("sort", "scan"):
        return (max(t.numel() for t in results + given),)
    return (max(t.numel() for t in results or given),)


def product(args: tuple, out) -> Work:
    """A product of matrices, or of several."""
    rows, columns = out.shape[-2:]
    return rows, columns, out.numel() // max(rows * columns, 1)


def convolution(args: tuple, out) -> Work:
    """A convolution as a product: positions of the result by its channels."""
    return _positions(out), out.shape[1], 1


def input_gradient(args: tuple, out) -> Work:
    """The same for the gradient of its input."""
    return convolution(args, args[1])


def weight_gradient(args: tuple, out) -> Work:
    """The same for the gradient of its weight: a sum over positions."""
    grad, _, weight = args[:3]
    return weight.shape[0], weight.numel() // max(weight.shape[0], 1), 1, _positions(grad)


def bias_gradient(args: tuple, out) -> Work:
    """A sum for each channel."""
    return args[0].shape[1], _positions(args[0])


def affine_gradient(args: tuple, out) -> Work:
    """A sum for each element of a layer norm's weight."""
    elements = math.prod(args[2])
    return elements, args[0].numel() // max(elements, 1)


def means(args: tuple, out) -> Work:
    """A normalisation: a block for each mean that it keeps; in evaluation, for each channel."""
    kept = out[1].numel() if len(out) > 1 and isinstance(out[1], torch.Tensor) else 0
    return kept or args[0].shape[1], NORM_THREADS


def softmax(args: tuple, out) -> Work:
    """A softmax, or its backward: a result for each element, a sum for each row along the dimension that is given."""
    along = next((a for a in args if isinstance(a, int)), -1)
    size = max(out.shape[along], 1) if out.dim() else 1
    return out.numel() // size, size


def rows(args: tuple, out) -> Work:
    """LayerNorm: a block for each row."""
    return out[1].numel(), ROW_THREADS


def means_backward(args: tuple, out) -> Work:
    """Backward of each of them."""
    if isinstance(args[2], (list, tuple)):  # LayerNorm's shape of a row
        return args[3].numel(), ROW_THREADS
    if len(args) > 5 and isinstance(args[5], int):  # GroupNorm's batch size
        return args[2].numel(), NORM_THREADS
    return args[0].shape[1], NORM_THREADS


def written(args: tuple, out) -> Work:
    """A scatter: the largest of what is written and where."""
    return (max((t.numel() for t in _tensors(args[1:])), default=1),)


def _positions(tensor: torch.Tensor) -> int:
    return tensor.numel() // max(tensor.shape[1], 1)


def _tensors(tree) -> list[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        return [tree]
    return [t for item in tree for t in _tensors(item)] if isinstance(tree, (list, tuple)) else []
