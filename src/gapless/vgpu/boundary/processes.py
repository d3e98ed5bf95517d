"""A tensor of the device that is sent to another process (a queue, a pipe, ``torch.multiprocessing``) goes as its values."""

# mypy: disable-error-code="return-value"
# PyTorch's stubs lack what is used here.
from __future__ import annotations

import pickle
from multiprocessing.reduction import ForkingPickler

import torch

from ..core.storage import VirtualStorage
from ..core.tensor import VirtualTensor
from ..process.state import DEVICE, NAME


def _receive(values: bytes, requires_grad: bool, is_parameter: bool) -> torch.Tensor:
    if torch._C._get_privateuse1_backend_name() != NAME:
        raise RuntimeError(f"a tensor on {DEVICE} came to a process without that device: call gapless.vgpu.enable() there "
                           "first, or send .cpu()")
    received = pickle.loads(values).to(DEVICE)
    if is_parameter:
        return torch.nn.Parameter(received, requires_grad)
    return received.requires_grad_(requires_grad)


def _pickled(tensor: VirtualTensor) -> bytes:
    # Not in shared memory: that of a copy would be gone before a process that is being spawned has mapped it.
    return pickle.dumps(tensor.detach().cpu())


def _send(tensor: VirtualTensor):
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError("only a leaf tensor that requires gradients can go to another process: send .detach()")
    return _receive, (_pickled(tensor), tensor.requires_grad, isinstance(tensor, torch.nn.Parameter))


def _receive_storage(values: bytes) -> VirtualStorage:
    return _receive(values, False, False).untyped_storage()


def _send_storage(storage: VirtualStorage):
    return _receive_storage, (_pickled(storage.bytes),)


def install() -> None:
    """Say how tensors and their memory are sent."""
    ForkingPickler.register(VirtualTensor, _send)
    ForkingPickler.register(VirtualStorage, _send_storage)
