"""How many graphs ``torch.compile`` has compiled, and how many kernels run without."""

from __future__ import annotations

import sys

import torch

from ..vgpu.compiling import compile_times
from ..vgpu.process.state import state


def compilations(device: torch.device) -> int | None:
    """So far, in the process of the device; None where nobody counts. On the virtual GPU the device itself counts what it
    has run compiled; on a real one Dynamo does."""
    if device.type == "vgpu":
        return compile_times.compilations()
    if device.type == "cuda":
        dynamo = sys.modules.get("torch._dynamo.utils")
        return dynamo.counters["stats"]["unique_graphs"] if dynamo is not None else 0
    return None


def uncompiled(device: torch.device) -> tuple[int, int] | None:
    """How many kernels were launched by operators of no compiled graph so far, and how many of them are matrix
    products, up to a constant; None where nobody counts."""
    if device.type != "vgpu":
        return None
    kernels, products = compile_times.compiled_kernels()
    return state.timeline.kernel_count - kernels, state.timeline.product_count - products
