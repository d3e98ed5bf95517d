"""``torch.load(..., map_location="vgpu")``: storages of a file become storages of the device.

A tensor of the device is saved as its values and the device's name (``VirtualTensor.__reduce_ex__``). A tensor of another
device is a storage in the file and a shape upon it: the storage stays in host memory, under the device's name.
"""

from __future__ import annotations

import torch

from .dispatch import handles, unwrap
from .operators import _copy_in
from .state import state
from .tensor import DEVICE, NAME


class _Loaded(torch.UntypedStorage):
    """A storage read from a file for the device: PyTorch makes the tensors upon it where it says it is."""

    @property
    def device(self) -> torch.device:
        return DEVICE


def _restore(storage, location: str):
    if not location.startswith(NAME):
        return None
    storage.__class__ = _Loaded
    return storage


@handles("set_")
def _set(operator, args, kwargs):
    """``tensor.set_(storage, …)``: the tensor takes over memory that is there; what comes from a file is copied over."""
    target, *rest = args
    loaded = bool(rest) and isinstance(rest[0], torch.UntypedStorage)
    if loaded and target.inner.is_meta:
        raise NotImplementedError("torch.load to the device is not supported in vgpu.shape_only(): load outside it")
    inner_args, inner_kwargs, _ = unwrap(operator, args, kwargs)
    operator.func(*inner_args, **inner_kwargs)
    if loaded:
        _copy_in(target.inner, target.inner, non_blocking=False)
    target.follow(state.memory)
    return target


def install() -> None:
    """Tell PyTorch what to make of the device's name in a file. (The entry comes before the CPU's, which is at 10.)"""
    torch.serialization.register_package(5, lambda storage: None, _restore)
