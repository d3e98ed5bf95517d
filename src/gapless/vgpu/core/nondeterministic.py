"""What CUDA has no deterministic kernel for: an error under ``torch.use_deterministic_algorithms(True)``, or a warning, with
the name that CUDA gives to the kernel.

The operators are those of that function's documentation, torch 2.14. The names are texts in its libraries; those of ``put_``
and ``reflection_pad2d`` are from ATen's sources of earlier versions. ``torch.nn.functional.interpolate`` avoids some of them
by itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch

_SAID = ("{} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms({})'. On CUDA "
         "it may give other digits at each run: turn determinism off for this operation, or use 'warn_only=True'.")


def _always(args: tuple, kwargs: dict) -> bool:
    return True


def _given(place: int, name: str, *values) -> Callable[[tuple, dict], bool]:
    """Whether the argument is one of ``values``, or, without them, is there."""
    def is_given(args: tuple, kwargs: dict) -> bool:
        value = args[place] if len(args) > place else kwargs.get(name)
        return value in values if values else value is not None

    return is_given


@dataclass(frozen=True)
class Rule:
    """``kernel``: what CUDA calls it. ``when``: of the operator's arguments and keyword arguments."""

    kernel: str
    when: Callable[[tuple, dict], bool] = _always

    def check(self, args: tuple, kwargs: dict) -> None:
        """Raise RuntimeError, or warn, as the program has chosen."""
        if not torch.are_deterministic_algorithms_enabled() or not self.when(args, kwargs):
            return
        if not torch.is_deterministic_algorithms_warn_only_enabled():
            raise RuntimeError(_SAID.format(self.kernel, "True"))
        warnings.warn(_SAID.format(self.kernel, "True, warn_only=True"), stacklevel=2)


# Operator, with its overload where not all of them are meant → its rule.
_RULES = {
    "avg_pool3d_backward": Rule("avg_pool3d_backward_cuda"),
    "_adaptive_avg_pool2d_backward": Rule("adaptive_avg_pool2d_backward_cuda"),
    "_adaptive_avg_pool3d_backward": Rule("adaptive_avg_pool3d_backward_cuda"),
    "adaptive_max_pool2d_backward": Rule("adaptive_max_pool2d_backward_cuda"),
    "fractional_max_pool2d_backward": Rule("fractional_max_pool2d_backward_cuda"),
    "fractional_max_pool3d_backward": Rule("fractional_max_pool3d_backward_cuda"),
    "max_unpool2d": Rule("max_unpooling2d_forward_out"),
    "max_unpool3d": Rule("max_unpooling3d_forward_out"),
    **{f"upsample_{kind}_backward": Rule(f"upsample_{kind}_backward_out_cuda")
       for kind in ("linear1d", "bilinear2d", "bicubic2d", "trilinear3d")},
    **{f"_upsample_{kind}_aa_backward": Rule(f"upsample_{kind}_aa_backward_out_cuda")
       for kind in ("bilinear2d", "bicubic2d")},
    "reflection_pad1d_backward": Rule("reflection_pad1d_backward_out_cuda"),
    "reflection_pad2d_backward": Rule("reflection_pad2d_backward_cuda"),
    "reflection_pad3d_backward": Rule("reflection_pad3d_backward_out_cuda"),
    "nll_loss2d_forward": Rule("nll_loss2d_forward_out_cuda_template"),
    "nll_loss2d_backward": Rule("nll_loss2d_backward_out_cuda_template"),
    "_ctc_loss_backward": Rule("ctc_loss_backward_gpu"),
    "_embedding_bag_backward": Rule("embedding_bag_backward_cuda_max", _given(8, "mode", 2)),
    "put_": Rule("put_"),
    "histc": Rule("_histc_cuda with floating point input", lambda args, kwargs: args[0].is_floating_point()),
    "bincount": Rule("_bincount_cuda", _given(1, "weights")),
    **dict.fromkeys(("median.dim", "nanmedian.dim"), Rule("median CUDA with indices output")),
    "grid_sampler_2d_backward": Rule("grid_sampler_2d_backward_cuda"),
    "grid_sampler_3d_backward": Rule("grid_sampler_3d_backward_cuda"),
    **dict.fromkeys(("scatter_reduce", "scatter_reduce_"), Rule("scatter_reduce_cuda_prod_", _given(4, "reduce", "prod"))),
}


def rule(func) -> Rule | None:
    """Of an OpOverload; None where CUDA is deterministic, or can be."""
    name, overload = func._schema.name.split("::", 1)[1], func._schema.overload_name
    return _RULES.get(name) or _RULES.get(f"{name}.{overload}")
