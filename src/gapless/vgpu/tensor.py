"""The virtual GPU's tensor: a wrapper whose values are a CPU tensor (exact) or a meta tensor (shape only)."""

from __future__ import annotations

import weakref

import torch

NAME = "vgpu"
DEVICE = torch.device("privateuseone", 0)  # shown as vgpu:0 once the backend is registered

# Storage address → its allocation on the card, for as long as a tensor uses it.
_allocations: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


class VirtualTensor(torch.Tensor):
    """A tensor on ``vgpu:0``.

    ``inner``: the values, a CPU or a meta tensor of the same shape, strides and dtype. ``density``: for a
    mask whose values are unknown, the assumed share of ones, else None.
    """

    inner: torch.Tensor
    density: float | None

    @staticmethod
    def __new__(cls, inner: torch.Tensor, allocation, density: float | None = None):
        self = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            layout=inner.layout,
            device=DEVICE,
        )
        self.inner = inner
        self.allocation = allocation
        self.density = density
        return self

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        from .dispatch import dispatch  # the table of operators needs this class first

        return dispatch(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents=None):
        values = repr(self.detach().cpu())  # a read-back, as printing a CUDA tensor is one
        note = ", values unknown" if self.inner.is_meta else ""
        return f"{values[:-1]}, device='{DEVICE}'{note})" if values.endswith(")") else values

    def __setitem__(self, index, value):
        # PyTorch leaves a Python number on the host for CUDA only, so that x[mask] = 1.0 needs no wait.
        if isinstance(value, (bool, int, float, complex)):
            value = torch.tensor(value, dtype=self.dtype)
        super().__setitem__(index, value)

    def tolist(self):
        """Nested lists of Python numbers; a read-back."""
        return self.cpu().tolist()

    def __reduce_ex__(self, protocol):
        raise RuntimeError("a tensor on vgpu cannot be pickled yet: call .cpu() first")

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
    """A VirtualTensor around ``inner``; a new storage takes its bytes from ``memory``."""
    storage = inner.untyped_storage()
    address = storage._cdata
    allocation = _allocations.get(address)
    if allocation is None:
        allocation = memory.allocate(storage.nbytes())
        _allocations[address] = allocation
    return VirtualTensor(inner, allocation, density)
