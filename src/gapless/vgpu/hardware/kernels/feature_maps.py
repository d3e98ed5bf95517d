"""What CUDA runs over feature maps besides convolutions, and how long memory holds it back: normalisation by channel,
pooling, resizing, changes of layout.

Each is its bytes at a share of the bandwidth, by kind and memory format; the shares are fitted to whole networks
(:mod:`gapless.fidelity.fit.networks`). Batch norm reads its input twice in training (statistics, then the
result) and once in evaluation; its backward reads input and gradient twice each.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..cards.fitted import constants
from ..cards.specs import Card
from ..times import geometry, layout
from ..times.tensor_cores import Work, busy_s
from .costs import Kernel, kernels_of, nbytes, tensors, traffic


@dataclass(frozen=True, slots=True)
class Traffic:
    """``size`` bytes moved by a kernel of a ``kind``, whose share of the bandwidth is the constant of that name."""

    kind: str
    size: float

    def start_and_busy_s(self, card: Card, dtype: str) -> tuple[float, float]:
        known = constants("tensor_cores", card.fit_key)
        return known["start_s"], busy_s(self.work(card), card, "float32", known)

    def work(self, card: Card) -> Work:
        """Its work, on any card."""
        return Work((), 0.0, (), self.kind, self.size, on_tensor_cores=False)


def over_maps(what: str, name: str, size: float, kind: str, work: geometry.WorkRule | None = None) -> Kernel:
    """A kernel called ``name`` that moves ``size`` bytes at the share that ``what`` has."""
    return Kernel(name, kind, size, work=work, problem=Traffic(what, size))


def converted(tensor: torch.Tensor) -> Kernel:
    """The copy of ``tensor`` in another memory format."""
    return over_maps("layout", "elementwise_kernel(memory format)", 2 * nbytes(tensor), "pointwise")


# -- normalisation ----------------------------------------------------------------------------------


@kernels_of("native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm", "_batch_norm_with_update",
            "_native_batch_norm_legit_no_training")
def _batch_norm(args, kwargs, out):
    x, y = args[0], tensors(out)[0]
    training = next((a for a in args if isinstance(a, bool)), out[1].numel() > 0)
    what = "batch_norm" if training else "batch_norm_evaluation"
    return [over_maps(what + _format(x), "norm_forward_kernel", (1 + training) * nbytes(x) + nbytes(y), "normalization",
                       geometry.means)]


@kernels_of("native_batch_norm_backward", "batch_norm_backward", "cudnn_batch_norm_backward")
def _batch_norm_backward(args, kwargs, out):
    grad, x = args[:2] if args[0].dim() == args[1].dim() else (args[1], args[0])
    return [over_maps("batch_norm_backward" + _format(x), "norm_backward_kernel", 5 * nbytes(grad), "normalization",
                       geometry.means_backward)]


@kernels_of("native_group_norm")
def _group_norm(args, kwargs, out):
    x, y = args[0], tensors(out)[0]
    return ([converted(x)] if x.numel() and not x.is_contiguous() else []) + [
        over_maps("group_norm", "norm_forward_kernel", 2 * nbytes(x) + nbytes(y), "normalization", geometry.means)]


@kernels_of("native_group_norm_backward")
def _group_norm_backward(args, kwargs, out):
    return [over_maps("group_norm_backward", "norm_backward_kernel", 5 * nbytes(args[0]), "normalization",
                       geometry.means_backward)]


def _format(tensor) -> str:
    return "_nhwc" if tensor.dim() == 4 and layout.suggests_channels_last(tensor) else "_nchw"


# -- pooling and resizing -------------------------------------------------------------------------


@kernels_of("max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d", "adaptive_max_pool2d",
            "max_pool3d_with_indices", "avg_pool3d", "_adaptive_avg_pool3d", "adaptive_max_pool3d")
def _pooling(args, kwargs, out):
    return [over_maps("pooling" + _format(args[0]), "pool_forward_kernel", traffic(args, kwargs, out), "pointwise")]


@kernels_of("max_pool2d_with_indices_backward", "avg_pool2d_backward", "_adaptive_avg_pool2d_backward",
            "adaptive_max_pool2d_backward", "max_pool3d_with_indices_backward", "avg_pool3d_backward",
            "_adaptive_avg_pool3d_backward", "adaptive_max_pool3d_backward")
def _pooling_backward(args, kwargs, out):
    return [over_maps("pooling_backward" + _format(tensors(out)[0]), "pool_backward_kernel", traffic(args, kwargs, out),
                       "pointwise")]


_RESIZERS = [f"{name}{way}" for way in ("", "_backward") for name in (
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_bilinear2d", "upsample_bicubic2d",
    "upsample_linear1d", "upsample_trilinear3d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
    "_upsample_nearest_exact2d")]


@kernels_of(*_RESIZERS)
def _resizing(args, kwargs, out):
    return [over_maps("resizing", "upsample_kernel", traffic(args, kwargs, out), "pointwise")]
