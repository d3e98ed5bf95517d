"""A real GPU as checks need it: float32 that is float32, and no library's memory in anybody's step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F


@contextmanager
def like_the_cpu(device: torch.device) -> Iterator[None]:
    """Inside, what ``device`` computes can be compared with the CPU's values: float32 is no TF32 (by default convolutions'
    is), and cuBLAS already has its workspaces. On all but a real GPU this does nothing."""
    if device.type != "cuda":
        yield
        return
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    _take_workspaces(device)
    try:
        before = products.allow_tf32, convolutions.allow_tf32
    except RuntimeError:  # the program has used ``fp32_precision`` too, and PyTorch refuses to read the older switches
        yield
        return
    products.allow_tf32 = convolutions.allow_tf32 = False
    try:
        yield
    finally:
        products.allow_tf32, convolutions.allow_tf32 = before


def _take_workspaces(device: torch.device) -> None:
    """cuBLAS and cuBLASLt take 8 to 32 MiB each with a thread's first products, in the backward pass's thread too, and keep
    them (``aten/src/ATen/cuda/CublasHandlePool.cpp``; 48 MiB in all on an H100)."""
    with torch.enable_grad(), torch.autocast("cuda", enabled=False):
        for dtype in (torch.float32, torch.float16):
            x = torch.ones(2, 16, 16, device=device, dtype=dtype, requires_grad=True)
            (x @ x + F.linear(x[0] @ x[1], x[0], x[0, 0])).sum().backward()
