"""What CUDA runs to sort, to select and to count: CUB's radix sorts and what PyTorch builds with them.

From the sources of PyTorch 2.11 to 2.14 in ATen, ``native/cuda``: Sort.cpp, Sort.cu, SortStable.cu, TensorTopK.cu,
UniqueCub.cu, Unique.cu, SummaryOps.cu, Repeat.cu, Bucketization.cu; and from CUB's ``DeviceRadixSort``.
"""

from __future__ import annotations

import math

import torch

from ..times.scattered import L1, L2, Chains, sector_bytes
from .costs import Kernel, kernels_of, nbytes, tensors

RADIX_BITS = 8  # CUB's one-sweep radix sort: bits sorted in one pass over keys and values
ONE_TILE = 4096  # what a block sorts in shared memory: CUB's single tile, PyTorch's sort in place
MANY_SEGMENTS, LONG_SEGMENT = 128, 1_000_000  # SortStable.cu
SEGMENT_BITS = 6  # of a pass of CUB's segmented sort
SORTED_BY_BLOCK = 2048  # merge sort: elements that a block sorts before the merges


def radix_sort(count: int, key_bytes: int, value_bytes: int, bits: int | None = None, held_bytes: int = 0) -> list[Kernel]:
    """CUB's one-sweep radix sort: a histogram, then a read and a write of everything for each pass.

    ``bits``: how many bits of the key can differ, all of them if None. ``held_bytes``: what the caller holds meanwhile.
    """
    both = count * (key_bytes + value_bytes)
    if count <= ONE_TILE:
        return [Kernel("DeviceRadixSortSingleTileKernel", "sort", 2 * both, workspace_bytes=held_bytes, work=(count,))]
    passes = -(-(bits or key_bytes * 8) // RADIX_BITS)
    return [
        Kernel("DeviceRadixSortHistogramKernel", "sort", count * key_bytes, work=(count,)),
        Kernel("DeviceRadixSortExclusiveSumKernel", "scan", passes * 2048, work=(256 * passes,)),
        *(Kernel("DeviceRadixSortOnesweepKernel", "sort", 2 * both, workspace_bytes=both + held_bytes, work=(count,))
          for _ in range(passes)),
    ]


# -- sort and topk ----------------------------------------------------------------------------------


def _sorted_in_place(count: int, size: int) -> Kernel:
    """Segments of up to 4096, each in a block's shared memory: bitonic, merge or radix sort of values and positions."""
    return Kernel("radixSortKVInPlace", "sort", 2 * count * (size + 8), work=(count,))


@kernels_of("sort", "argsort", "msort")
def _sort(args, kwargs, out):
    x = args[0]
    count, size = x.numel(), x.element_size()
    if not count:
        return []
    numbers = [a for a in args[1:] if isinstance(a, int) and not isinstance(a, bool)]
    dim = kwargs.get("dim", numbers[0] if numbers else -1) % max(x.dim(), 1)
    length = x.shape[dim] if x.dim() else 1
    segments = count // length
    if length <= ONE_TILE:
        return [Kernel("elementwise_kernel(arange)", "pointwise", 8 * length, work=(length,)),
                Kernel("elementwise_kernel(positions)", "pointwise", 8 * count, work=(count,)),
                Kernel("elementwise_kernel(copy)", "pointwise", 2 * size * count, work=(count,)),
                _sorted_in_place(count, size)]
    moved = [] if x.dim() < 2 or x.stride(dim) == 1 else [
        Kernel("elementwise_kernel(transpose)", "pointwise", 2 * each * count, work=(count,)) for each in (size, size, 8)]
    return [*moved[:1], *_long_sort(count, size, length, segments), *moved[1:]]


def _long_sort(count: int, size: int, length: int, segments: int) -> list[Kernel]:
    """Segments that no block can hold (SortStable.cu): one after the other; or all at once and again by the segment; or a
    block for each, where there are enough of them."""
    filled = Kernel("fill_reverse_indices_kernel", "pointwise", 8 * count, work=(count,))
    if segments == 1 or length >= LONG_SEGMENT:
        return [filled, *(kernel for _ in range(segments) for kernel in radix_sort(length, size, 8))]
    if segments < MANY_SEGMENTS:
        return [filled, *radix_sort(count, size, 8, held_bytes=16 * count),
                *radix_sort(count, 8, 0, bits=max(1, (segments - 1).bit_length()), held_bytes=16 * count),
                Kernel("sort_postprocess_kernel", "gather", count * (16 + sector_bytes(size) + size), work=(count,))]
    # A pass counts, which reads the keys, and scatters, which reads and writes both.
    one_pass = count * (size + 2 * (size + 8))
    return [filled, *(Kernel("DeviceSegmentedRadixSortKernel", "sort", one_pass, workspace_bytes=count * (size + 8),
                             work=(count,)) for _ in range(-(-8 * size // SEGMENT_BITS)))]


@kernels_of("topk")
def _topk(args, kwargs, out):
    x, wanted = args[0], args[1] if len(args) > 1 else kwargs["k"]
    count, size = x.numel(), x.element_size()
    if not count or not wanted:
        return []
    dim = (args[2] if len(args) > 2 else kwargs.get("dim", -1)) % max(x.dim(), 1)
    length = x.shape[dim] if x.dim() else 1
    found = tensors(out)[0].numel()
    if _many_blocks(count // length, length):
        passes = size * 8 // RADIX_BITS
        select = [*(Kernel("radixFindKthValues", "sort", count * size, work=(count,)) for _ in range(passes)),
                  *(Kernel("DeviceScanByKeyKernel", "scan", 4096, work=(1024,)) for _ in range(2)),
                  Kernel("gatherTopK(mbtopk)", "sort", count * size + found * (size + 8), work=(count,))]
    else:
        # A block for each slice goes over it for every two bits, then twice; all but once out of L2, at four times the rate.
        again = 1 + (size * 4 + 1) / 4
        select = [Kernel("gatherTopK(sbtopk)", "sort", round(again * count * size) + found * (size + 8), work=(count,))]
    in_order = args[4] if len(args) > 4 else kwargs.get("sorted", True)
    return [*select, *([_sorted_in_place(found, size)] if in_order and found > 1 else [])]


# Up to so many slices are each given several blocks from so many elements on (TensorTopK.cu, should_use_multiblock).
_MULTIBLOCK = ((20, 20_000), (40, 10_000), (80, 8_000), (199, 5_000), (799, 3_000), (4000, 800), (math.inf, 400))


def _many_blocks(slices: int, length: int) -> bool:
    return length >= next(least for most, least in _MULTIBLOCK if slices <= most)


# -- unique -----------------------------------------------------------------------------------------


def _flag(args: tuple, kwargs: dict, place: int, name: str, default: bool = False) -> bool:
    return bool(kwargs.get(name, args[place] if len(args) > place else default))


@kernels_of("_unique2", "_unique")
def _unique(args, kwargs, out):
    return unique(args[0], sort=True, inverse=_flag(args, kwargs, 2, "return_inverse"),
                  counts=_flag(args, kwargs, 3, "return_counts"))


@kernels_of("unique_consecutive")
def _unique_consecutive(args, kwargs, out):
    return unique(args[0], sort=False, inverse=_flag(args, kwargs, 1, "return_inverse"),
                  counts=_flag(args, kwargs, 2, "return_counts"))


def unique(x: torch.Tensor, *, sort: bool, inverse: bool, counts: bool) -> list[Kernel]:
    """``unique`` of the elements of ``x``, as UniqueCub.cu does it: positions are sorted along where they are asked for, and
    booleans are counted."""
    count, size = x.numel(), x.element_size()
    if not count:
        return []
    if sort and x.dtype == torch.bool:
        return [Kernel("DeviceReduceKernel(count)", "reduction", count, work=(1, count)),
                Kernel("unique_bool_write_output", "pointwise", 32, work=(1,)),
                *([Kernel("unique_bool_write_inverse_indices", "pointwise", 9 * count, work=(count,))] if inverse else [])]
    found = []
    if sort:
        found += [Kernel("elementwise_kernel(arange)", "pointwise", 8 * count, work=(count,))] if inverse else []
        found += radix_sort(count, size, 8 if inverse else 0)
    if inverse:
        found += [Kernel("adjacent_difference_kernel", "pointwise", (size + 4) * count, work=(count,)),
                  Kernel("DeviceScanKernel", "scan", 12 * count, work=(count,))]
    if inverse and sort:
        found.append(Kernel("scatter_kernel(inverse)", "scatter", (16 + sector_bytes(8)) * count, work=(count,)))
    name = "DeviceRunLengthEncodeKernel" if counts else "DeviceSelectUniqueKernel"
    return [*found, Kernel(name, "scan", count * (size + (8 if counts else 0)), workspace_bytes=count * size, work=(count,))]


@kernels_of("unique_dim")
def _unique_of_rows(args, kwargs, out):
    # Thrust sorts the rows' numbers by merging, comparing whole rows (Unique.cu).
    x, dim = args[:2]
    rows, compared = _rows(x, dim)
    merges = math.ceil(math.log2(rows / SORTED_BY_BLOCK)) if rows > SORTED_BY_BLOCK else 0
    sorts = [Kernel("DeviceMergeSortKernel", "sort", compared, work=(rows,)) for _ in range(1 + merges)]
    return [Kernel("elementwise_kernel(arange)", "pointwise", 8 * rows, work=(rows,)), *sorts,
            *_unique_of_sorted_rows(args, kwargs, out)] if x.numel() else []


@kernels_of("unique_dim_consecutive")
def _unique_of_sorted_rows(args, kwargs, out):
    x, dim = args[:2]
    rows, compared = _rows(x, dim)
    return [Kernel("index_kernel(gather)", "gather", 8 * rows + 2 * nbytes(x)),
            Kernel("unique_by_key(rows)", "scan", compared, work=(rows,))] if x.numel() else []


def _rows(x: torch.Tensor, dim: int) -> tuple[int, int]:
    """How many rows, and the bytes that are read where each is compared with another: its number and its first 128 bytes."""
    rows = max(x.shape[dim], 1) if x.dim() else 1
    return rows, rows * (16 + 2 * min(sector_bytes(x.numel() // rows * x.element_size()), 128))


# -- counting and searching -------------------------------------------------------------------------


@kernels_of("bincount", "histc")
def _histogram(args, kwargs, out):
    x = args[0]
    bounds = [Kernel("reduce_kernel(bounds)", "reduction", nbytes(x), work=(1, x.numel())) for _ in range(2)]
    given = kwargs.get("min", args[2] if len(args) > 2 else 0), kwargs.get("max", args[3] if len(args) > 3 else 0)
    if isinstance(x, torch.Tensor) and x.is_floating_point() and given[0] != given[1]:
        bounds = []
    if not x.numel():
        bounds = []
    moved = nbytes(x) + sum(nbytes(t) for t in tensors(args[1:]))
    return [*bounds, Kernel("Memset (Device)", "memset", nbytes(out)),
            *([Kernel("kernelHistogram1D", "scatter", moved + nbytes(out), work=(x.numel(),))] if x.numel() else [])]


@kernels_of("repeat_interleave")
def _repeat_interleave(args, kwargs, out):
    repeats = args[0]
    return [Kernel("elementwise_kernel(compare)", "pointwise", nbytes(repeats) + repeats.numel()),
            Kernel("reduce_kernel(all)", "reduction", repeats.numel(), work=(1, repeats.numel())),
            Kernel("DeviceScanKernel", "scan", 2 * nbytes(repeats), work=(repeats.numel(),)),
            Kernel("compute_cuda_kernel(repeat)", "pointwise", 2 * nbytes(repeats) + nbytes(out))]


@kernels_of("searchsorted", "bucketize")
def _search(args, kwargs, out):
    # Half of what is left at each step, and each step waits for a load; the first ones are in L1.
    lists = [each for each in args[:2] if isinstance(each, torch.Tensor)]
    boundaries = min(lists, key=torch.Tensor.numel) if len(lists) == 2 else lists[0]
    steps = max(1, boundaries.shape[-1].bit_length()) if boundaries.dim() else 1
    moved = sum(nbytes(each) for each in lists) + nbytes(out)
    cycles = min(steps, 12) * L1 + max(0, steps - 12) * L2
    return [Kernel("searchsorted_cuda_kernel", "pointwise", moved,
                   problem=Chains("pointwise", moved, -(-out.numel() // 32), cycles, cycles))]
