"""A tensor that moves between the host and the device stays the same object: ``tensor.data = tensor.data.to(…)``.

PyTorch puts the data of one tensor into another where both are of one kind; a wrapper is another kind. The two tensors are
exchanged instead, under their names: who holds the old object, by a weak reference too, holds the moved one.
"""

# mypy: disable-error-code="assignment, attr-defined"
# What is put in the place of PyTorch's own is not of the type that its stubs name, or is nothing that they know.
from __future__ import annotations

import types
from types import SimpleNamespace

import torch

from ..process.state import NAME
from .tensor import VirtualTensor

# PyTorch's own exchange, which refuses a tensor that somebody holds weakly. Here that is whom it is done for.
_swap = torch.utils.swap_tensors
exchange = types.FunctionType(_swap.__code__, {**_swap.__globals__, "weakref": SimpleNamespace(getweakrefs=lambda t: ())})


def crosses(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether one is on the host and the other on the device."""
    places = {one.device.type, other.device.type}
    return isinstance(one, VirtualTensor) != isinstance(other, VirtualTensor) and places == {"cpu", NAME}


def assign(tensor: torch.Tensor, other: torch.Tensor) -> None:
    """``tensor.data = other``, where one is on the host and the other on the device. A gradient goes along. Raises
    RuntimeError for what an operator has made."""
    if not tensor.is_leaf:
        raise RuntimeError(f"the data of a result cannot move between {tensor.device} and {other.device}: .detach() it "
                           "first, or use .to()")
    grad, requires_grad = tensor.grad, tensor.requires_grad
    tensor.grad = None  # which would hold it
    with torch.no_grad():
        moved = other.detach()
        if isinstance(tensor, torch.nn.Parameter):
            moved = torch.nn.Parameter(moved, requires_grad)
        elif moved.is_floating_point() or moved.is_complex():
            moved.requires_grad_(requires_grad)
    try:
        exchange(tensor, moved)
    except RuntimeError as error:
        raise RuntimeError(f"the data of a tensor that a graph or other tensors hold cannot move between {tensor.device} "
                           f"and {other.device}: use .to(); in place of FullyShardedDataParallel's offloading to the CPU "
                           "fully_shard's (CPUOffloadPolicy, get_model_state_dict)") from error
    if grad is not None and grad.shape == tensor.shape:
        tensor.grad = grad.to(tensor.device, tensor.dtype)


VirtualTensor._data_from_host = assign


def install() -> None:
    """Let ``.data`` of any tensor take one of the device's, and the other way round."""
    plain = torch.Tensor.data

    def set_data(self, other):
        if isinstance(self, VirtualTensor):
            self.data = other
        elif isinstance(other, VirtualTensor) and crosses(self, other):
            assign(self, other)
        else:
            plain.__set__(self, other)

    torch.Tensor.data = property(plain.__get__, set_data, doc="The tensor outside autograd.")
