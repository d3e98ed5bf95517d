"""One thread for PyTorch's operators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, an operator on the CPU computes with one thread: it sums in the same order on every machine, and beside other
    work it takes a fraction of the time, as no threads wait for a core."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
