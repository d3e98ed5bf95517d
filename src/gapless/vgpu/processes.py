"""Tensors of one process in another: a clear error where CUDA has one, a copy where there is a way.

After a fork the child has the parent's Python objects; on CUDA they are of no use there, nor is a device that the parent
has begun with, and PyTorch refuses. Here values would be read and made as if nothing had happened, so the child refuses too. A
tensor that is sent (a queue, a pipe, ``torch.multiprocessing``) goes as its values.
"""

from __future__ import annotations

import os
from multiprocessing.reduction import ForkingPickler

import torch

from .state import state
from .tensor import DEVICE, NAME, VirtualTensor


def _after_fork() -> None:
    state.forked = True  # the device was enabled before, or nobody would have come here
    state.timeline.forget_due()


def refuse() -> None:
    """Raise RuntimeError: the device was enabled before this process was forked (torch/cuda/__init__.py, ``_lazy_init``)."""
    raise RuntimeError(f"Cannot re-initialize {NAME} in forked subprocess. To use {NAME} with multiprocessing, you must use the "
                       "'spawn' start method (for a DataLoader: multiprocessing_context='spawn')")


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
