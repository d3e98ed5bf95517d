"""What CUDA runs for sparse COO tensors, and where that makes the host wait.

From PyTorch's sources in ATen, ``native/sparse``: ``cuda/SparseCUDATensor.cu`` (coalesce), ``cuda/SparseCUDATensorMath.cu``
(products, sums), ``cuda/SoftMax.cu``, ``SparseTensor.cpp``, ``SparseBinaryOpIntersectionCommon.h``; and
``SparseTensorUtils.cpp`` (``flatten_indices``). Thrust waits for the stream at the end of each of its algorithms, as its
policy ``thrust::cuda::par`` says. cuSPARSE does not wait.

A plan is a list of kernels and of waits, in the order in which they come.
"""

from __future__ import annotations

import math

import torch

from ..times.scattered import sector_bytes
from .costs import Kernel, nbytes
from .indexing import SMALLEST_L2
from .sorting import SORTED_BY_BLOCK

WAIT = "wait"  # for the stream
READ = "read"  # a number back, and so a wait
UPLOAD = "upload"  # a few numbers of the host's, copied from pageable memory: a wait
SENT = "sent"  # the same without a wait: the driver puts them aside

Plan = list  # of Kernel, WAIT, READ, UPLOAD and SENT

POSITION = 8  # bytes of an index


def _pointwise(name: str, moved: float) -> list[Kernel]:
    return [Kernel(f"elementwise_kernel({name})", "pointwise", moved, footprint=int(moved))] if moved else []


def copied(tensor: torch.Tensor) -> Plan:
    """A copy on the device."""
    return _pointwise("copy", 2 * nbytes(tensor))


def flattened(indices: torch.Tensor) -> Plan:
    """One position of the many of an element: a product with strides, which the host has, and a sum."""
    dims, count = indices.shape
    if dims == 1:
        return []
    moved = POSITION * dims * count
    return [UPLOAD, *_pointwise("mul", 2 * moved),
            Kernel("reduce_kernel(sum)", "reduction", moved + POSITION * count, work=(count, dims))]


def _merge_sort(count: int) -> list[Kernel]:
    """Thrust's sort by a comparison of its own: by merging."""
    merges = math.ceil(math.log2(count / SORTED_BY_BLOCK)) if count > SORTED_BY_BLOCK else 0
    return [Kernel("DeviceMergeSortKernel", "sort", 4 * POSITION * count, work=(count,)) for _ in range(1 + merges)]


def coalesced(sparse: torch.Tensor, found: torch.Tensor) -> Plan:
    """``coalesce`` of ``sparse``, which gives ``found``: sort, count the different positions, sum the values of each."""
    indices, values = sparse._indices(), sparse._values()
    dims, count = indices.shape
    if count < 2:
        return [*copied(indices), *copied(values)]
    flat = flattened(indices) or copied(indices)
    line = POSITION * count
    numbers = [*_pointwise("thrust::copy", line), WAIT]
    moved = nbytes(values) + nbytes(found._values()) + 2 * line
    sums = [Kernel("coalesceValuesKernel", "gather", moved)] if values.numel() else []
    unique = [Kernel("unique_by_key", "scan", 4 * line, work=(count,)), READ]
    unflatten = _pointwise("unflatten", 3 * POSITION * found._nnz()) * (3 * dims if dims > 1 else 0)
    return [*flat, *numbers, *numbers, *_merge_sort(count), WAIT, *unique, *sums, *unflatten]


def product(sparse: torch.Tensor, dense: torch.Tensor, out: torch.Tensor) -> Plan:
    """cuSPARSE's product of the coalesced ``sparse`` (m × k) and ``dense`` (k × n): positions as int32, rows compressed, and
    a result in column order, copied there and back."""
    count, (rows, _), columns = sparse._nnz(), sparse.shape, dense.shape[1]
    size = out.element_size()
    transposed = _pointwise("copy", 2 * nbytes(out)) if columns > 1 else []
    found = [*_pointwise("int", 12 * count) * 2, *([Kernel("cooToCsr", "pointwise", 4 * (count + rows))] if rows else []),
             *([Kernel("Memset (Device)", "memset", nbytes(out))] if out.numel() else []), *transposed]
    if count and columns:
        gathered = nbytes(dense) if nbytes(dense) <= SMALLEST_L2 else count * sector_bytes(columns * size)
        moved = count * (4 + size) + 4 * (rows + 1) + gathered + 2 * nbytes(out)
        found.append(Kernel("csrmm_kernel", "gather", moved))
    return [*found, *transposed]


def product_of_batch(sparse: torch.Tensor, dense: torch.Tensor, out: torch.Tensor) -> Plan:
    """A product for each matrix of the coalesced ``sparse``; the host reads where each begins."""
    count, matrices = sparse._nnz(), sparse.shape[0]
    moved = (count * (8 + out.element_size()) + nbytes(dense) + nbytes(out)) / max(matrices, 1)
    one = Kernel("coomm_kernel", "gather", moved)
    return [*_pointwise("int", 12 * count) * 2, Kernel("search_end_matrix_indices", "pointwise", 8 * matrices), WAIT, READ,
            *[one] * matrices]


def product_of_sparse(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor) -> Plan:
    """cuSPARSE's product of two sparse matrices: a kernel counts, the host sizes the result, a kernel computes."""
    moved = sum(12 * each._nnz() for each in (left, right)) + 12 * out._nnz()
    return [*_pointwise("int", 12 * left._nnz()) * 2, *_pointwise("int", 12 * right._nnz()) * 2,
            Kernel("spgemm_work", "gather", moved), READ, Kernel("spgemm_compute", "gather", moved), READ,
            Kernel("spgemm_copy", "gather", moved)]


def added_to_dense(dense: torch.Tensor, sparse: torch.Tensor, in_place: bool) -> Plan:
    """``dense + sparse``: through an ``index_add`` unless each position comes once."""
    indices, values = sparse._indices(), sparse._values()
    start = [] if in_place else copied(dense)
    if not values.numel():
        return start
    rows = max(sparse._nnz(), 1)
    row = sector_bytes(values.numel() // rows * dense.element_size())
    scattered = Kernel("sparseElementwiseKernel" if sparse.is_coalesced() else "index_add_kernel", "scatter",
                       nbytes(indices) + nbytes(values) + 2 * rows * row)
    # On an H100 (torch 2.11) no wait was counted here: the strides are not copied over.
    flat = [] if sparse.is_coalesced() else [step for step in flattened(indices) if step is not UPLOAD]
    return [*start, *flat, scattered]


def added(left: torch.Tensor, right: torch.Tensor, scaled: bool) -> Plan:
    """The sum of two sparse tensors: one after the other."""
    moved = [2 * (nbytes(left._indices()) + nbytes(right._indices())),
             2 * (nbytes(left._values()) + nbytes(right._values()))]
    scale = _pointwise("mul", 2 * nbytes(right._values())) if scaled else []
    return [*scale, *(Kernel("CatArrayBatchedCopy", "pointwise", each) for each in moved if each)]


def intersected(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor) -> Plan:
    """What is in both: positions are numbered, sorted unless one side is coalesced, and looked up by halving."""
    count = left._nnz() + right._nnz()
    line = POSITION * count
    order = [] if left.is_coalesced() or right.is_coalesced() else _merge_sort(max(left._nnz(), right._nnz(), 1))
    return [*_pointwise("arange", line), *_pointwise("hash", line + POSITION * count), *order,
            Kernel("binary_search(intersection)", "gather", 2 * line + 2 * POSITION * out._nnz()),
            *copied(out._indices()), Kernel("value_selection_intersection", "gather", 3 * nbytes(out._values()) + line)]


def masked(dense: torch.Tensor, mask: torch.Tensor) -> Plan:
    """``dense.sparse_mask(mask)``: the values at the mask's positions, times ones."""
    indices, values = mask._indices(), mask._values()
    rows = max(mask._nnz(), 1)
    moved = nbytes(indices) + rows * sector_bytes(values.numel() // rows * dense.element_size()) + nbytes(values)
    return [*_pointwise("ones", dense.element_size()), *copied(indices), Kernel("index_kernel(gather)", "gather", moved),
            *_pointwise("mul", 2 * nbytes(values))]


def pools(indices: torch.Tensor, values: torch.Tensor) -> Plan:
    """The offsets of a softmax's elements, put together by pool: Thrust's sequence, sort, reduction by key and scan, each
    with its wait."""
    count = indices.shape[1]
    line = POSITION * count
    return [SENT, Kernel("thrust::transform(offsets)", "pointwise", nbytes(indices) + line), WAIT,
            *_pointwise("thrust::sequence", line), WAIT, *_merge_sort(count), WAIT,
            Kernel("reduce_by_key", "scan", 2 * line, work=(count,)), READ, *_pointwise("copy", 2 * line),
            Kernel("DeviceScanKernel", "scan", 2 * line, work=(count,)), WAIT]


def softmax(indices: torch.Tensor, values: torch.Tensor) -> Plan:
    """Over a sparse dimension."""
    moved = nbytes(values)
    return [*copied(indices), *pools(indices, values), *_pointwise("fill", moved),
            Kernel("thrust::for_each(max)", "gather", 2 * moved), WAIT,
            Kernel("cuda_sparse_coo_softmax_kernel", "gather", 3 * moved)]


def softmax_backward(indices: torch.Tensor, values: torch.Tensor) -> Plan:
    """Over a sparse dimension."""
    line, moved = POSITION * indices.shape[1], nbytes(values)
    offsets = [SENT, Kernel("thrust::transform(offsets)", "pointwise", nbytes(indices) + line), WAIT]
    return [Kernel("Memset (Device)", "memset", moved), *copied(indices), *offsets, *offsets,
            Kernel("thrust::lower_bound", "gather", 3 * line), WAIT, *pools(indices, values),
            Kernel("cuda_sparse_coo_softmax_backward_kernel", "gather", 4 * moved)]


def matched(grad: torch.Tensor, out: torch.Tensor) -> Plan:
    """Where each element of a sum's operand is in the sum's gradient ``grad``."""
    line = POSITION * out._nnz()
    return [*flattened(grad._indices()), *flattened(out._indices()), Kernel("thrust::lower_bound", "gather", 3 * line), WAIT,
            Kernel("_sparse_sum_backward_cuda_kernel", "gather", 3 * line + 2 * nbytes(out._values()))]


def swapped(indices: torch.Tensor) -> Plan:
    """Two rows of ``indices`` change places, by way of a third."""
    row = 2 * POSITION * indices.shape[1]
    return [*_pointwise("copy", row) * 3]


def selected(sparse: torch.Tensor) -> Plan:
    """Positions are compared with those that are wanted, and what is found is counted."""
    line = POSITION * sparse._nnz()
    return [*_pointwise("compare", 2 * line), Kernel("DeviceReduceKernel(count nonzero)", "reduction", line,
                                                      work=(1, sparse._nnz())), READ,
            Kernel("DeviceSelectSweepKernel(nonzero)", "scan", 2 * line, work=(2 * sparse._nnz(),))]
