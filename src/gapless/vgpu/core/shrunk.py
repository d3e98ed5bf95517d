"""Tensors whose memory has been taken from them (``tensor.untyped_storage().resize_(0)``, as FSDP frees parameters).

They may be viewed and asked for their sizes. Who reads or writes them gets an error; on CUDA it is an illegal access, and
nothing works after.
"""

from __future__ import annotations

import weakref

from ..hardware.kernels import costs
from ..process.state import DEVICE, state
from .tensor import VirtualTensor


def note(allocation, before: int, now: int) -> None:
    """``allocation`` had ``before`` bytes and has ``now``."""
    number = id(allocation)
    had = state.shrunk.get(number, 0)
    if now >= max(had, before):
        state.shrunk.pop(number, None)
    elif now < before:
        if not had:
            weakref.finalize(allocation, state.shrunk.pop, number, None)
        state.shrunk[number] = max(had, before)


def check(operator, *arguments) -> None:
    """Raise RuntimeError where ``operator`` would use memory that is not there."""
    for tensor in costs.tensors(*arguments):
        if isinstance(tensor, VirtualTensor) and is_freed(tensor):
            raise RuntimeError(f"{operator.full_name} uses a tensor on {DEVICE} whose memory has been freed "
                               "(untyped_storage().resize_): give it its bytes back first")


def is_freed(tensor: VirtualTensor) -> bool:
    """Whether it has elements whose memory is not there."""
    if id(tensor.allocation) not in state.shrunk or not tensor.numel():
        return False
    last = tensor.storage_offset() + sum((many - 1) * step for many, step in zip(tensor.shape, tensor.stride()))
    return (last + 1) * tensor.element_size() > tensor.within.untyped_storage().nbytes()
