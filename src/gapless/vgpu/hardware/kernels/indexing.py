"""What CUDA runs for indexing: gathers, scatters, masks, accumulation, and the gradient of an embedding.

From the sources of PyTorch 2.11 to 2.14 in ATen, ``native/cuda``: Nonzero.cu, IndexKernel.cu, Indexing.cu, IndexKernel.cpp,
ScatterGatherKernel.cu, Embedding.cu, EmbeddingBackwardKernel.cu. PyTorch 2.0 differs in the last kernel of an accumulating
write (:func:`..times.scattered.accumulation`) and waits twice for each index of a user's own
``index_put_(accumulate=True)``, where it is checked on the device today.

Rows that are picked one here, one there cost whole sectors of 32 bytes. Those that a mask picks lie in order: their
neighbours share them. Which rows other indices pick is known where there are values; without, they are taken to be spread
at random. Assumptions: what fits into 4 MiB, the least L2 of any card, is read from memory once; a row that is written in
part is read before (the sectors of an L2 line are filled).
"""

# mypy: disable-error-code="attr-defined"
# PyTorch's stubs lack what is used here.
from __future__ import annotations

import math

import torch

from ..times import geometry
from ..times.scattered import GLOBAL, Chains, Repeats, accumulation, sector_bytes, spread
from .costs import Kernel, kernels_of, nbytes, tensors
from .sorting import radix_sort

SMALLEST_L2 = 4 * 2**20
FEW_INDICES, ROWS_AT_ONCE = 3072, 32  # Embedding.cu: a kernel without a sort, and the rows that its blocks take at a time
ROWS_OF_SUM = 10  # EmbeddingBackwardKernel.cu, NROWS_PER_THREAD


# -- positions of a mask ----------------------------------------------------------------------------


def nonzero_count(mask: torch.Tensor) -> list[Kernel]:
    """The first half of ``nonzero``: count, so that the host can size the result. What is not contiguous is copied."""
    count = mask.numel()
    copied = [] if mask.is_contiguous() else [
        Kernel("elementwise_kernel(copy)", "pointwise", nbytes(mask) + count * mask.element_size(),
               workspace_bytes=count * mask.element_size(), work=(count,))]
    return [*copied, Kernel("DeviceReduceKernel(count nonzero)", "reduction", count * mask.element_size(), work=(1, count)),
            Kernel("DeviceReduceSingleTileKernel", "reduction", 4096, work=(1, 1024))]


def nonzero_select(mask: torch.Tensor, count: int) -> list[Kernel]:
    """The second half: select linear positions, then write one int64 coordinate per dimension (four 64-bit divisions each,
    which still take less time than the writing)."""
    dimensions = max(mask.dim(), 1)
    size = mask.numel() * mask.element_size()
    return [
        Kernel("DeviceCompactInitKernel", "scan", 1024, work=(256,)),
        Kernel("DeviceSelectSweepKernel(nonzero)", "scan", size + 8 * count, work=(2 * mask.numel(),)),
        *([Kernel("write_indices(nonzero)", "pointwise", 8 * count * (1 + dimensions), work=(4 * count,))]
          if dimensions > 1 and count else []),
    ]


@kernels_of("nonzero_static")
def _nonzero_static(args, kwargs, out):
    mask = args[0]
    size = mask.numel() * mask.element_size()
    return [
        Kernel("calc_block_sums(nonzero_static)", "scan", size),
        Kernel("compute_agg(nonzero_static)", "scan", 4096, work=(512,)),
        Kernel("flag_kernel(nonzero_static)", "scan", size + nbytes(out)),
        Kernel("write_fill_value(nonzero_static)", "pointwise", nbytes(out) // max(mask.dim(), 1)),
        *([Kernel("write_indices(nonzero_static)", "pointwise", 2 * nbytes(out))] if mask.dim() > 1 else []),
    ]


def mark_as_in_order(positions: torch.Tensor) -> None:
    """Say of the inner tensor of an index that its positions are those of a mask: in order, each once."""
    positions.in_order = True


def _in_order(indices: list[torch.Tensor]) -> bool:
    return bool(indices) and all(getattr(each, "in_order", False) for each in indices)


@kernels_of("masked_scatter_", "masked_scatter")
def _masked_scatter(args, kwargs, out):
    target, _, source = args[:3]
    count = target.numel()
    clone = [Kernel("Memcpy DtoD (clone)", "pointwise", 2 * nbytes(target))] if out is not target else []
    return [
        *clone,
        Kernel("DeviceScanKernel(positions)", "scan", 9 * count, workspace_bytes=8 * count, work=(count,)),
        Kernel("masked_scatter_size_check", "pointwise", 16, work=(1,)),
        Kernel("elementwise_kernel(masked_scatter)", "pointwise",
               9 * count + 2 * nbytes(target) + min(nbytes(source), nbytes(target))),
    ]


# -- reading through an index -----------------------------------------------------------------------


def _row_elements(tensor: torch.Tensor, last: int) -> int:
    """How many elements lie side by side for each index, where the dimension ``last`` is the last that is indexed."""
    inner = tensor.shape[last + 1:]
    dense = tensor.is_contiguous() or all(stride == math.prod(inner[place + 1:]) for place, stride in
                                          enumerate(tensor.stride()[last + 1:]))
    return math.prod(inner) if dense else 1


def _picked_bytes(source: torch.Tensor, elements: int, row: int, in_order: bool) -> int:
    """Bytes that come from memory where ``elements`` of ``source`` are read in rows of ``row``."""
    if in_order:
        return elements * source.element_size()
    found = elements // max(row, 1) * sector_bytes(row * source.element_size())
    return min(found, nbytes(source)) if nbytes(source) <= SMALLEST_L2 else found


def _gathered(source, indices, out, row) -> list[Kernel]:
    in_order = _in_order(indices)
    moved = sum(nbytes(i) for i in indices) + nbytes(out) + _picked_bytes(source, out.numel(), row, in_order)
    return [Kernel("index_kernel(gather)", "pointwise" if in_order else "gather", moved)]


@kernels_of("index", "_unsafe_index", by_values=True)
def _index(args, kwargs, out):
    source, indices = args[:2]
    last = max((place for place, index in enumerate(indices) if index is not None), default=-1)
    return _gathered(source, [i for i in indices if i is not None], out, _row_elements(source, last))


@kernels_of("index_select")
def _index_select(args, kwargs, out):
    source, dim, index = args[:3]
    return _gathered(source, [index], out, _row_elements(source, dim % source.dim()) if source.dim() else 1)


@kernels_of("gather", "take")
def _elements(args, kwargs, out):
    return _gathered(args[0], tensors(args[1:]), out, 1)


# -- writing through an index -----------------------------------------------------------------------


def _written_bytes(target: torch.Tensor, elements: int, row: int, in_order: bool = False) -> int:
    """Bytes that go to memory where ``elements`` of ``target`` are written in rows of ``row``."""
    row_bytes = row * target.element_size()
    if in_order or not row_bytes:
        return elements * target.element_size()
    whole = sector_bytes(row_bytes) == row_bytes
    return elements // row * sector_bytes(row_bytes) * (1 if whole else 2)


@kernels_of("index_put_", "index_put", "_index_put_impl_", "_unsafe_index_put", by_values=True)
def _index_put(args, kwargs, out):
    target, indices, values = args[:3]
    accumulate = args[3] if len(args) > 3 else kwargs.get("accumulate", False)
    checked = not (args[4] if len(args) > 4 else kwargs.get("unsafe", False))
    present = [(place, index) for place, index in enumerate(indices) if index is not None]
    if not present:
        return [Kernel("elementwise_kernel(copy)", "pointwise", nbytes(values) + nbytes(target))]
    row, last = _row_elements(target, present[-1][0]), present[-1][0]
    given = [index for _, index in present]
    count = math.prod(torch.broadcast_shapes(*(index.shape for index in given)))
    outer = math.prod(target.shape[:present[0][0]])
    clone = [Kernel("Memcpy DtoD (clone)", "pointwise", 2 * nbytes(target))] if out is not target else []
    if not accumulate:
        elements = count * outer * math.prod(target.shape[last + 1:])
        moved = sum(nbytes(i) for i in given) + nbytes(values) + _written_bytes(target, elements, row, _in_order(given))
        return [*clone, Kernel("index_put_kernel", "scatter", moved, work=geometry.written)]
    rows = max(target.numel() // max(outer * row, 1), 1)
    return [
        *clone,
        *_linear_positions(given, count, checked),
        Kernel("elementwise_kernel(arange)", "pointwise", 8 * count, work=(count,)),
        *radix_sort(count, 8, 8, bits=max(1, (rows - 1).bit_length()), held_bytes=32 * count),
        Kernel("indexing_backward_kernel", "scatter", 16 * count + 3 * nbytes(values), work=geometry.written,
               workspace_bytes=32 * count,
               problem=accumulation(_repeats(target, present, rows, count), row, target.element_size(), outer,
                                    _in_order(given))),
    ]


def _linear_positions(given: list[torch.Tensor], count: int, checked: bool) -> list[Kernel]:
    """``makeLinearIndex``: each index modulo its dimension, times the stride, added up, divided by the size of a row; each
    int64 step a kernel. A user's own indices are checked on the device (``_assert_async``)."""
    found = []
    for number, index in enumerate(given):
        if checked:
            for _ in range(2):  # the largest, the smallest
                found += [Kernel("reduce_kernel(bounds)", "reduction", nbytes(index), work=(1, index.numel())),
                          Kernel("elementwise_kernel(compare)", "pointwise", 9, work=(1,)),
                          Kernel("_assert_async_cuda_kernel", "pointwise", 1, work=(1,))]
        found += [Kernel("elementwise_kernel(remainder)", "pointwise", nbytes(index) + 8 * count, work=(count,)),
                  Kernel("elementwise_kernel(mul)", "pointwise", 16 * count, work=(count,))]
        if number:
            found.append(Kernel("elementwise_kernel(add)", "pointwise", 24 * count, work=(count,)))
    return [*found, Kernel("elementwise_kernel(div_trunc)", "pointwise", 16 * count, work=(count,),
                           workspace_bytes=16 * count)]


def _repeats(target, present, rows, count) -> Repeats:
    """How often the rows are hit: by the values of the indices, where there are any."""
    given = [index for _, index in present]
    if _in_order(given):
        return Repeats(count, count, 1)
    if not count or any(index.is_meta for index in given):
        return spread(count, rows)
    linear = torch.zeros((), dtype=torch.int64)
    for place, index in present:
        linear = linear * target.shape[place] + index.long() % max(target.shape[place], 1)
    hits = torch.unique(linear, return_counts=True)[1]
    return Repeats(count, hits.numel(), int(hits.max()))


def _scatter_rows(target, source_bytes, index, elements, row, out, atomic: bool) -> list[Kernel]:
    moved = nbytes(index) + source_bytes + _written_bytes(target, elements, row)
    if atomic and sector_bytes(row * target.element_size()) == row * target.element_size():
        moved += elements * target.element_size()  # read, added to, written
    clone = [Kernel("Memcpy DtoD (clone)", "pointwise", 2 * nbytes(target))] if out is not target else []
    return [*clone, Kernel("scatter_kernel", "scatter", moved, work=geometry.written)]


@kernels_of("scatter_", "scatter", "scatter_add_", "scatter_add", "scatter_reduce", "scatter_reduce_")
def _scatter(args, kwargs, out):
    target, _, index, *given = args
    source = next((each for each in given if isinstance(each, torch.Tensor)), kwargs.get("src"))
    moved = index.numel() * source.element_size() if isinstance(source, torch.Tensor) and source.dim() else 0
    return _scatter_rows(target, moved, index, index.numel(), 1, out, True)


@kernels_of("index_add_", "index_add", "index_copy_", "index_copy", "index_fill_", "index_fill", "index_reduce_")
def _along_a_dimension(args, kwargs, out):
    target, dim, index, *given = args
    source = given[0] if given and isinstance(given[0], torch.Tensor) and given[0].dim() else None
    size = max(target.shape[dim % target.dim()], 1) if target.dim() else 1
    elements = source.numel() if source is not None else target.numel() // size * index.numel()
    row = _row_elements(target, dim % target.dim()) if target.dim() else 1
    return _scatter_rows(target, nbytes(source) if source is not None else 0, index, elements, row, out, source is not None)


# -- the gradient of an embedding -------------------------------------------------------------------


@kernels_of("embedding_dense_backward")
def _embedding_backward(args, kwargs, out):
    grad, indices, _, _, by_frequency = (*args, False)[:5]
    count, width = indices.numel(), out.shape[-1]
    zeros = Kernel("Memset (Device)", "memset", nbytes(out))
    if not count:
        return [zeros]
    rows = min(count, out.shape[0])
    moved = nbytes(grad) + 2 * rows * width * out.element_size()
    if count <= FEW_INDICES and not by_frequency:
        # A block for 32 features takes 32 rows at a time: positions, gradients, weights, and then the next.
        passes = -(-count // ROWS_AT_ONCE)
        return [zeros, Kernel("embedding_backward_feature_kernel", "scatter", moved, work=geometry.written,
                              problem=Chains("scatter", moved, -(-width // 32) * ROWS_AT_ONCE, 4 * GLOBAL * passes,
                                             4 * GLOBAL * passes))]
    position, sums = indices.element_size(), min(count, rows + count // ROWS_OF_SUM) * width * 4
    each = position * count
    return [
        Kernel("elementwise_kernel(arange)", "pointwise", each, work=(count,)),
        *radix_sort(count, position, position, bits=max(1, (out.shape[0] - 1).bit_length()), held_bytes=2 * each),
        *([Kernel("DeviceScanByKeyKernel(counts)", "scan", 3 * each)] * 2 if by_frequency else []),
        zeros,
        Kernel("DeviceUniqueByKeySweepKernel", "scan", 2 * each),
        Kernel("krn_partials_per_segment", "pointwise", 2 * each, work=(count,)),
        Kernel("DeviceScanKernel", "scan", 2 * each),
        Kernel("compute_num_of_partial_segments", "pointwise", 32, work=(1,)),
        Kernel("krn_partial_segment_offset", "pointwise", 4 * each, work=(count,)),
        Kernel("compute_grad_weight", "gather", each + nbytes(grad) + sums, workspace_bytes=4 * count * width),
        Kernel("sum_and_scatter", "scatter", sums + rows * (position + width * out.element_size()), work=geometry.written),
    ]
