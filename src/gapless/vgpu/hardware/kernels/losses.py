"""What CUDA runs for the negative log-likelihood: of rows by a single block, of images by many.

``nll_loss`` of N rows with a mean or a sum is one block, forward and backward, whatever N (ATen, cuda/Loss.cu). It had 32
threads up to PyTorch 2.7, and from 32 to 1024 since (pull requests 149548, and 149779 for CUDA). A loop of its threads
waits for the labels, then for what they pick, and all SMs but one do nothing: for millions of rows it is slow, and with 32
threads the slowest kernel of a step. ``nll_loss2d`` has as many blocks as a card can run (cuda/NLLLoss2d.cu).
"""

from __future__ import annotations

import math

from ..times.scattered import GLOBAL, SECTOR, OneBlock, sector_bytes
from .costs import Kernel, kernels_of, nbytes, tensors

FEWEST_THREADS, MOST_THREADS, ROWS_OF_THREAD = 32, 1024, 16
_NONE = 0  # Reduction::None


def threads(rows: int) -> int:
    """Of the one block for ``rows`` rows (``nll_loss_threads``)."""
    wanted = 2 ** round(math.log2(max(rows // ROWS_OF_THREAD, 1)))
    return min(max(wanted, FEWEST_THREADS), MOST_THREADS)


def one_block(rows: int, row_bytes: int, element_bytes: int, loads: int, block: int | None = None) -> OneBlock:
    """The kernel: each pass takes labels (int64) and one element of each row, in ``loads`` loads that wait for each other.
    ``block``: its threads, as PyTorch chooses them if None."""
    block = block or threads(rows)
    picked = min(sector_bytes(element_bytes), max(row_bytes, element_bytes))
    return OneBlock(-(-rows // block), loads * GLOBAL, block * (8 + picked))


@kernels_of("nll_loss_forward")
def _forward(args, kwargs, out):
    x, labels, weight, reduction = args[:4]
    rows, size = labels.numel(), x.element_size()
    moved = nbytes(labels) + rows * min(SECTOR, nbytes(x) // max(rows, 1)) + sum(nbytes(t) for t in tensors(weight))
    if reduction == _NONE:
        return [Kernel("Memset (Device)", "memset", size),
                Kernel("nll_loss_forward_no_reduce_cuda_kernel", "gather", moved + nbytes(tensors(out)[0]))]
    if not rows:
        return [Kernel("fill_kernel", "pointwise", size)] * 2
    return [Kernel("nll_loss_forward_reduce_cuda_kernel_2d", "reduction", moved, work=(1, rows),
                   problem=one_block(rows, nbytes(x) // rows, size, loads=2))]


@kernels_of("nll_loss_backward")
def _backward(args, kwargs, out):
    _, x, labels, weight, reduction = args[:5]
    rows = labels.numel()
    zeros = Kernel("Memset (Device)", "memset", nbytes(out))
    moved = nbytes(labels) + rows * min(SECTOR, nbytes(x) // max(rows, 1)) + sum(nbytes(t) for t in tensors(weight))
    if not rows:
        return [zeros]
    if reduction == _NONE:
        return [zeros, Kernel("nll_loss_backward_no_reduce_cuda_kernel", "scatter", moved + nbytes(args[0]))]
    # What it writes nobody waits for.
    return [zeros, Kernel("nll_loss_backward_reduce_cuda_kernel_2d", "scatter", moved, work=(rows,),
                          problem=one_block(rows, nbytes(x) // rows, x.element_size(), loads=1))]


def _picked_bytes(x, labels) -> int:
    """Bytes of the sectors of ``x`` (B×C×H×W) that hold a label's element: of C planes, the sector of each that one of its
    pixels picks, if labels are spread at random."""
    pixels, classes = SECTOR // x.element_size(), max(x.shape[1], 1)
    return round(nbytes(x) * (1 - (1 - 1 / classes) ** pixels))


@kernels_of("nll_loss2d_forward")
def _forward_of_images(args, kwargs, out):
    x, labels, _, reduction = args[:4]
    moved = nbytes(labels) + _picked_bytes(x, labels)
    if reduction == _NONE:
        return [Kernel("nll_loss2d_forward_no_reduce_kernel", "pointwise", moved + nbytes(tensors(out)[0]))]
    return [*(Kernel("Memset (Device)", "memset", x.element_size()) for _ in range(2)),
            Kernel("nll_loss2d_forward_kernel", "reduction", moved, work=(1, labels.numel())),
            Kernel("nll_loss2d_forward_size_average_kernel", "pointwise", 12, work=(1,))]


@kernels_of("nll_loss2d_backward")
def _backward_of_images(args, kwargs, out):
    _, x, labels = args[:3]
    return [Kernel("Memset (Device)", "memset", nbytes(out)),
            Kernel("nll_loss2d_backward_kernel", "pointwise", nbytes(labels) + 2 * _picked_bytes(x, labels))]
