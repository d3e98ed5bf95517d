"""A real GPU as checks need it: float32 that is float32, and no library's memory in anybody's step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F


@contextmanager
def like_the_cpu(device: torch.device) -> Iterator[None]:
    """Inside, float32 on a real GPU is no TF32, which convolutions are by default: values can be compared with the CPU's. A
    program that has set ``torch.backends.cuda.matmul.fp32_precision`` keeps what it has set for products. On all but a real
    GPU this does nothing."""
    if device.type != "cuda":
        yield
        return
    cudnn: Any = torch.backends.cudnn
    places = cudnn.conv, cudnn.rnn
    before = [place.fp32_precision for place in places]
    try:
        products = torch.get_float32_matmul_precision() if torch.backends.cuda.matmul.allow_tf32 else None
    except RuntimeError:  # PyTorch refuses to read the older switches where the newer one says something else
        products = None
    try:
        for place in places:
            place.fp32_precision = "ieee"
        if products is not None:
            torch.set_float32_matmul_precision("highest")
        yield
    finally:
        for place, precision in zip(places, before):
            place.fp32_precision = precision
        if products is not None:
            torch.set_float32_matmul_precision(products)


def take_workspaces(device: torch.device) -> None:
    """cuBLAS and cuBLASLt take 8 to 32 MiB each with a thread's first products, in the backward pass's thread too, and keep
    them (``aten/src/ATen/cuda/CublasHandlePool.cpp``): taken now, they are in nobody's step. On all but a real GPU this
    does nothing."""
    if device.type != "cuda":
        return
    with torch.enable_grad(), torch.autocast("cuda", enabled=False):
        for dtype in (torch.float32, torch.float16):
            x = torch.ones(2, 16, 16, device=device, dtype=dtype, requires_grad=True)
            (x @ x + F.linear(x[0] @ x[1], x[0], x[0, 0])).sum().backward()
