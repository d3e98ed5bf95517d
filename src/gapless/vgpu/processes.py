"""Tensors of one process in another: a clear error where CUDA has one, a copy where there is a way.

After a fork the child has the parent's Python objects; on CUDA they are of no use there, and the driver refuses. Here
their values would be read as if nothing had happened, so the child refuses too. A tensor that is sent (a queue, a
pipe, ``torch.multiprocessing``) goes as its values.
"""

from __future__ import annotations

import os
from multiprocessing.reduction import ForkingPickler

import torch

from .hardware import costs
from .hardware.memory import Memory
from .state import state
from .tensor import DEVICE, NAME, VirtualTensor, allocations


def _after_fork() -> None:
    # Whatever lives now is the parent's. What it took of the card is not the child's either.
    state.kept = allocations()  # so that no id is given to another
    state.foreign = frozenset(map(id, state.kept))
    state.memory = Memory(state.card.memory_bytes)
    state.timeline.forget_due()


def check(*arguments) -> None:
    """Raise RuntimeError if a tensor in the arguments was made before this process was forked."""
    for tensor in costs.tensors(*arguments):
        if isinstance(tensor, VirtualTensor) and id(tensor.allocation) in state.foreign:
            raise RuntimeError(f"a tensor on {DEVICE} made in the parent of this forked process cannot be used here, as on "
                               "CUDA: make it in this process, send its .cpu(), or use the 'spawn' start method")


def _receive(values: torch.Tensor, requires_grad: bool, is_parameter: bool) -> torch.Tensor:
    if torch._C._get_privateuse1_backend_name() != NAME:
        raise RuntimeError(f"a tensor on {DEVICE} came to a process without that device: call gapless.vgpu.enable() there "
                           "first, or send .cpu()")
    received = values.to(DEVICE)
    if is_parameter:
        return torch.nn.Parameter(received, requires_grad)
    return received.requires_grad_(requires_grad)


def _send(tensor: VirtualTensor):
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError("only a leaf tensor that requires gradients can go to another process: send .detach()")
    return _receive, (tensor.detach().cpu(), tensor.requires_grad, isinstance(tensor, torch.nn.Parameter))


def install() -> None:
    """Watch for forks, and say how tensors are sent."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)
    ForkingPickler.register(VirtualTensor, _send)
