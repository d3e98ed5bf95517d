"""The virtual GPU's tensor: a wrapper whose values are a CPU tensor (exact) or a meta tensor (shape only)."""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict

import torch
from torch import _tensor_str

from . import old_format, race_detector
from .state import state

NAME = "vgpu"
DEVICE = torch.device("privateuseone", 0)  # shown as vgpu:0 once the backend is registered

# Storage address → its allocation on the card, for as long as a tensor uses it (a WeakValueDictionary by hand).
_allocations: dict[int, weakref.ref] = {}


def _forget(address: int, reference: weakref.ref) -> None:
    if _allocations.get(address) is reference:
        del _allocations[address]


def allocations() -> list:
    """The allocations of all tensors."""
    return [found for reference in list(_allocations.values()) if (found := reference()) is not None]


_make_wrapper = torch.Tensor._make_wrapper_subclass


class VirtualTensor(torch.Tensor):
    """A tensor on ``vgpu:0``.

    ``inner``: the values, a CPU or a meta tensor of the same shape, strides and dtype. ``density``: for a
    mask whose values are unknown, the assumed share of ones, else None.
    """

    inner: torch.Tensor
    density: float | None = None

    @staticmethod
    def __new__(cls, inner: torch.Tensor, allocation, density: float | None = None):
        self = _make_wrapper(cls, inner.shape, inner.stride(), inner.storage_offset(), None, inner.dtype, inner.layout,
                             DEVICE)  # by place: names would take as long again
        self.inner = inner
        self.allocation = allocation
        if density is not None:
            self.density = density
        return self

    __torch_function__ = torch._C._disabled_torch_function_impl
    # __torch_dispatch__: given by .dispatch, as the two need each other.

    def __repr__(self, *, tensor_contents=None):
        host = self.detach().cpu()  # a read-back, as printing a CUDA tensor is one
        contents = tensor_contents or ("[]" if host.numel() == 0 else _tensor_str._tensor_str(host, len("tensor(")))
        notes = [f"device='{DEVICE}'"]
        if host.numel() == 0 and host.dim() != 1:
            notes.append(f"size={tuple(host.shape)}")
        if host.dtype not in (torch.get_default_dtype(), torch.int64, torch.bool, torch.complex64):
            notes.append(f"dtype={host.dtype}")
        if self.grad_fn is not None:
            notes.append(f"grad_fn=<{type(self.grad_fn).__name__}>")
        elif self.requires_grad:
            notes.append("requires_grad=True")
        if self.inner.is_meta:
            notes.append("values unknown")
        text = _tensor_str._add_suffixes("tensor(" + contents, notes, len("tensor("), force_newline=False)
        return f"Parameter containing:\n{text}" if isinstance(self, torch.nn.Parameter) else text

    def __setitem__(self, index, value):
        # PyTorch leaves a Python number on the host for CUDA only, so that x[mask] = 1.0 needs no wait.
        if isinstance(value, (bool, int, float, complex)):
            value = torch.tensor(value, dtype=self.dtype)
        super().__setitem__(index, value)

    def __format__(self, spec):
        if self.dim() == 0:
            return format(self.item(), spec)  # a read-back
        return super().__format__(spec)

    # -- what C++ would do to the wrapper and not to the values ---------------------------------

    @property
    def data(self) -> torch.Tensor:
        """The tensor outside autograd; assigning gives this tensor the other's values, shape and dtype."""
        return torch.Tensor.data.__get__(self)

    @data.setter
    def data(self, other: torch.Tensor) -> None:
        torch.Tensor.data.__set__(self, other)
        self.inner, self.allocation, self.density = other.inner, other.allocation, other.density

    def follow(self, memory) -> None:
        """Take over the shape, strides and dtype that ``inner`` has got from an operator like ``squeeze_``."""
        same = (self.shape == self.inner.shape and self.stride() == self.inner.stride() and self.dtype == self.inner.dtype
                and self.storage_offset() == self.inner.storage_offset())
        if same and self.inner.untyped_storage().nbytes() <= self.allocation.nbytes:
            return
        with torch._C._DisableTorchDispatch():
            self.data = wrap(self.inner, memory, self.density)

    def data_ptr(self) -> int:
        """A number that tells tensors apart; no address on any device."""
        if self.inner.is_meta:
            return self.allocation.address + self.storage_offset() * self.element_size() if self.numel() else 0
        return self.inner.data_ptr()

    def record_stream(self, stream) -> None:
        """The memory goes to no other tensor before ``stream`` has done what it holds when this tensor goes."""
        if state.link is not None:
            state.link.ask("record_stream", self.inner.number, stream.stream_id)
        else:
            self.allocation.kept_for += (stream.stream_id,)

    # -- ways to the host -----------------------------------------------------------------------

    def tolist(self):
        """Nested lists of Python numbers; a read-back."""
        return self.cpu().tolist()

    def numpy(self, *, force: bool = False):
        """The values as an array where ``force``, else TypeError, as on any GPU."""
        if force:
            return self.detach().cpu().numpy()
        raise TypeError(f"can't convert {DEVICE} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
                        "host memory first.")

    def __array__(self, dtype=None, copy=None):
        return self.numpy()

    def __dlpack__(self, *args, **kwargs):
        raise BufferError(f"a tensor on {DEVICE} has no memory that another library can read: call .cpu() first")

    def __dlpack_device__(self):
        return self.__dlpack__()

    # -- copies of the object -------------------------------------------------------------------

    def __reduce_ex__(self, protocol):
        old_format.check(DEVICE)
        # Saved as its CPU copy and the name of the device, as PyTorch saves tensors of devices without a storage.
        if isinstance(self, torch.nn.Parameter):
            return torch._utils._rebuild_parameter, (self.detach(), self.requires_grad, OrderedDict())
        return (torch._utils._rebuild_device_tensor_from_cpu_tensor,
                (self.detach().cpu(), self.dtype, str(self.device), self.requires_grad))

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            raise RuntimeError("only leaf tensors can be deep-copied: call .detach() first")
        with torch.no_grad():
            copied = self.detach().clone()
        if isinstance(self, torch.nn.Parameter):
            copied = torch.nn.Parameter(copied, requires_grad=self.requires_grad)
        else:
            copied.requires_grad_(self.requires_grad)
        if self.grad is not None:
            copied.grad = self.grad.__deepcopy__(memo)
        memo[id(self)] = copied
        return copied


def wrap(inner: torch.Tensor, memory, density: float | None = None) -> VirtualTensor:
    """A VirtualTensor around ``inner``; a new storage takes its bytes from ``memory``. Raises OutOfMemory, and
    NotImplementedError for what has no storage (sparse and nested tensors)."""
    if inner.layout is not torch.strided or inner.is_nested:
        kind = "nested" if inner.is_nested else str(inner.layout).removeprefix("torch.")
        hint = " (nn.TransformerEncoder: enable_nested_tensor=False)" if inner.is_nested else ""
        raise NotImplementedError(f"{kind} tensors are not supported on {DEVICE}: use a dense one{hint}")
    storage = inner.untyped_storage()
    address, nbytes = storage._cdata, storage.nbytes()
    reference = _allocations.get(address)
    allocation = None if reference is None else reference()
    if allocation is None or allocation.nbytes < nbytes:
        allocation = memory.allocate(nbytes)
        _allocations[address] = weakref.ref(allocation, functools.partial(_forget, address))
        stream = state.timeline.current
        allocation.stream, allocation.made = stream.number, (stream.number, stream.count)
        if memory.freed:
            race_detector.reused(allocation)
    return VirtualTensor.__new__(VirtualTensor, inner, allocation, density)  # __init__ has nothing to do
