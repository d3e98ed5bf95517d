"""RMSNorm as one operator, forward and backward, as on CUDA; values are the CPU's.

``torch.nn.functional.rms_norm`` asks for ``_fused_rms_norm``, unless the weight has another dtype or the input is complex or
channels last (ATen, layer_norm.cpp, ``rms_norm_symint``). CUDA has a kernel of its own for it (cuda/layer_norm_kernel.cu, a
layer norm's without the mean); a device that has none gets five kernels and more. The CPU has no backward pass of it: here
that is PyTorch's own decomposition.
"""

from __future__ import annotations

import torch
from torch._decomp import decomposition_table

from ..core.dispatch import COMPOSITE_HANDLED, dispatch

FORWARD, BACKWARD = torch.ops.aten._fused_rms_norm.default, torch.ops.aten._fused_rms_norm_backward.default


def install(library: torch.library.Library) -> None:
    """Give the device a kernel of its own, so that autograd differentiates the operator as a whole."""
    COMPOSITE_HANDLED.add("_fused_rms_norm")
    library.impl(FORWARD, lambda *args: dispatch(FORWARD, args, {}), "PrivateUse1")
    library.impl(BACKWARD, decomposition_table[BACKWARD], "CPU")
