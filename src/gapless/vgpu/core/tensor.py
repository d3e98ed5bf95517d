"""The virtual GPU's tensor: a wrapper whose values are a CPU tensor (exact) or a meta tensor (shape only)."""

# mypy: disable-error-code="assignment, attr-defined, override, union-attr"
# Redefines a class of PyTorch's: its methods are more than the stubs name, and take other tensors.
from __future__ import annotations

import copy
import functools
from collections import OrderedDict
from typing import Any

import torch
from torch import _tensor_str

from ..hardware.memory.memory import block
from ..ordering import race_detector
from ..process.state import DEVICE, state

_get_data, _set_data = torch._C.TensorBase.data.__get__, torch._C.TensorBase.data.__set__

# Layout that is not dense → the class of its tensors, called with the inner one.
KINDS: dict[torch.layout, type] = {}

_make_wrapper = torch.Tensor._make_wrapper_subclass


class VirtualTensor(torch.Tensor):
    """A tensor on ``vgpu:0``.

    ``within``: the values, a CPU or a meta tensor of the same shape, strides and dtype. ``density``: for a
    mask whose values are unknown, the assumed share of ones, else None. ``keys``: for ``_make_wrapper_subclass``.
    """

    within: Any  # a torch.Tensor, or the link's handle of one
    allocation: Any
    density: float | None = None

    @staticmethod
    def __new__(cls, inner: torch.Tensor, allocation=True, density: float | None = None, **keys):
        if isinstance(allocation, bool):  # a program's type(parameter)(data, requires_grad), which is nn.Parameter elsewhere
            return torch.nn.Parameter(inner, keys.get("requires_grad", allocation))
        self = _make_wrapper(cls, inner.shape, inner.stride(), inner.storage_offset(), None, inner.dtype, inner.layout,
                             DEVICE, **keys)  # by place: names would take as long again
        self.within = inner
        self.allocation = allocation
        if density is not None:
            self.density = density
        return self

    __torch_function__ = torch._C._disabled_torch_function_impl
    # What needs this class itself is given from above: __torch_dispatch__ by .dispatch, untyped_storage by .storage,
    # _data_from_host by .identity.

    def __repr__(self, *, tensor_contents=None):
        with torch._C.DisableTorchFunctionSubclass():
            host = self.detach().cpu().as_subclass(torch.Tensor)  # a read-back, as printing a CUDA tensor is one
        shown = host.dequantize() if host.is_quantized else host
        is_programs = hasattr(self, "program_class")
        name = f"{type(self).__name__}(" if is_programs else "tensor("
        contents = tensor_contents or ("[]" if host.numel() == 0 else _tensor_str._tensor_str(shown, len(name)))
        notes = [f"device='{DEVICE}'"]
        if host.numel() == 0 and host.dim() != 1:
            notes.append(f"size={tuple(host.shape)}")
        if host.dtype not in (torch.get_default_dtype(), torch.int64, torch.bool, torch.complex64):
            notes.append(f"dtype={host.dtype}")
        if self.grad_fn is not None:
            notes.append(f"grad_fn=<{type(self.grad_fn).__name__}>")
        elif self.requires_grad:
            notes.append("requires_grad=True")
        if self.within.is_meta:
            notes.append("values unknown")
        text = _tensor_str._add_suffixes(name + contents, notes, len(name), force_newline=False)
        if not isinstance(self, torch.nn.Parameter):
            return text
        return f"Parameter({text})" if is_programs else f"Parameter containing:\n{text}"

    def __setitem__(self, index, value):
        # PyTorch leaves a Python number on the host for CUDA only, so that x[mask] = 1.0 needs no wait.
        if isinstance(value, (bool, int, float, complex)):
            value = torch.scalar_tensor(value, dtype=self.dtype, device="cpu")
        super().__setitem__(index, value)

    def __format__(self, spec):
        if self.dim() == 0:
            return format(self.item(), spec)  # a read-back
        return super().__format__(spec)

    # -- what C++ would do to the wrapper and not to the values ---------------------------------

    @property
    def data(self) -> torch.Tensor:
        """The tensor outside autograd; assigning gives this tensor the other's values, shape and dtype."""
        return _get_data(self)

    @data.setter
    def data(self, other: torch.Tensor) -> None:
        if not isinstance(other, VirtualTensor) and isinstance(other, torch.Tensor):
            return self._data_from_host(other)
        _set_data(self, other)
        self.within, self.allocation, self.density = other.within, other.allocation, other.density

    def follow(self, memory) -> None:
        """Take over the shape, strides and dtype that ``inner`` has got from an operator like ``squeeze_``."""
        same = (self.shape == self.within.shape and self.stride() == self.within.stride() and self.dtype == self.within.dtype
                and self.storage_offset() == self.within.storage_offset())
        if same and self.within.untyped_storage().nbytes() <= self.allocation.nbytes:
            return
        with torch._C._DisableTorchDispatch():
            self.data = wrap(self.within, memory, self.density)

    def data_ptr(self) -> int:
        """Where the card would have it: a number that tells blocks of memory apart, and no address on any device."""
        if state.link is not None:
            return self.within.data_ptr()
        address = self.allocation.address
        return address + self.storage_offset() * self.element_size() if address and self.numel() else 0

    def as_subclass(self, cls: type) -> torch.Tensor:
        """The tensor as one of ``cls``, a subclass of ``torch.Tensor``: of a class that is both it and this one."""
        with torch._C.DisableTorchFunctionSubclass():
            out = torch.ops.aten.alias(self)
        out.__class__ = both(cls, type(self))
        return out

    def record_stream(self, stream) -> None:
        """The memory goes to no other tensor before ``stream`` has done what it holds when this tensor goes."""
        if state.link is not None:
            state.link.ask("record_stream", self.within.number, stream.stream_id)
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

    def __coerce_same_metadata_as_tangent__(self, metadata, expected_type=None):
        """What AOTAutograd asks of a gradient that is not of the class that it has traced: here it is as good as one."""
        return self

    # -- copies of the object -------------------------------------------------------------------

    def __reduce_ex__(self, protocol):
        """As PyTorch saves tensors of CUDA: a storage, which others may share, and a shape on it."""
        hooks = OrderedDict()
        if isinstance(self, torch.nn.Parameter):
            parts = self.detach(), self.requires_grad, hooks
            attributes = self._attributes()
            if attributes:
                return torch._utils._rebuild_parameter_with_state, (*parts, attributes)
            return torch._utils._rebuild_parameter, parts
        if self.is_conj() or self.is_neg():
            return self.resolve_conj().resolve_neg().__reduce_ex__(protocol)
        memory, shape = self.untyped_storage(), (self.storage_offset(), tuple(self.shape), self.stride())
        if self.dtype in torch.storage._new_dtypes():
            return torch._utils._rebuild_tensor_v3, (memory, *shape, self.requires_grad, hooks, self.dtype)
        typed = torch.TypedStorage(wrap_storage=memory, dtype=self.dtype, _internal=True)
        return torch._utils._rebuild_tensor_v2, (typed, *shape, self.requires_grad, hooks)

    def _attributes(self) -> dict:
        """What the program has hung on the tensor."""
        return {name: value for name, value in self.__dict__.items() if name not in OWN_ATTRIBUTES}

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError("only leaf tensors can be deep-copied: call .detach() first")
        with torch.no_grad():
            if isinstance(self, torch.nn.Parameter):
                copied = torch.nn.Parameter(self.detach().clone(), requires_grad=self.requires_grad)
            elif self.is_conj() or self.is_neg():
                copied = self.detach().clone().requires_grad_(self.requires_grad)
            else:
                memory = self.untyped_storage().__deepcopy__(memo)
                copied = torch.empty(0, dtype=self.dtype, device=DEVICE)
                copied = copied.set_(memory, self.storage_offset(), self.shape, self.stride())
                copied.requires_grad_(self.requires_grad)
        memo[id(self)] = copied
        if self.grad is not None:
            copied.grad = self.grad.__deepcopy__(memo)
        copied.__dict__.update(copy.deepcopy(self._attributes(), memo))
        return copied


# What is in a wrapper's __dict__ by itself.
OWN_ATTRIBUTES = frozenset({"within", "allocation", "density", "parts", "buffer", "_is_param"})


@functools.cache
def both(cls: type, kind: type) -> type:
    """A class of tensors that are ``cls``, a program's subclass of ``torch.Tensor``, and of the device (``kind``)."""
    kind, cls = getattr(kind, "kind", kind), getattr(cls, "program_class", cls)
    if issubclass(kind, cls):
        return kind
    if "__torch_dispatch__" in vars(cls):
        raise NotImplementedError(f"{cls.__name__} has a dispatch of its own: let it hold tensors of {DEVICE}")

    def make(_, *args, **kwargs):
        return cls(*args, **kwargs)

    def torch_function(_, func, types, args=(), kwargs=None):
        return cls.__torch_function__(func, tuple(getattr(each, "program_class", each) for each in types), args, kwargs)

    disabled = torch._C._disabled_torch_function_impl
    return type(cls)(cls.__name__, (cls, kind), {
        "__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__, "__new__": make,
        "__torch_function__": disabled if cls.__torch_function__ is disabled else classmethod(torch_function),
        "__torch_dispatch__": kind.__torch_dispatch__, "kind": kind, "program_class": cls})


def wrap(inner: torch.Tensor, memory, density: float | None = None) -> VirtualTensor:
    """A VirtualTensor around ``inner``; a new storage takes its bytes from ``memory``. Raises OutOfMemory, and
    NotImplementedError for what is neither dense nor of :data:`KINDS`."""
    if inner.layout is not torch.strided or inner.is_nested:
        if inner.layout in KINDS:
            return KINDS[inner.layout](inner)
        kind = "nested" if inner.is_nested else str(inner.layout).removeprefix("torch.")
        hint = " (nn.TransformerEncoder: enable_nested_tensor=False)" if inner.is_nested else ""
        raise NotImplementedError(f"{kind} tensors are not supported on {DEVICE}: use a dense one{hint}")
    storage = inner.untyped_storage()
    key, nbytes = storage._cdata, storage.nbytes()
    allocation = block(key)
    if allocation is None:
        allocation = memory.allocate(nbytes, key)
        if memory.left is not None:
            allocation.values = inner
        allocation.made_on = allocation.stream
        allocation.made = state.timeline.current.count
        if memory.freed:
            race_detector.reused(allocation)
    elif allocation.nbytes < nbytes:
        allocation.resize(nbytes)  # an operator has made the memory larger under all its tensors (resize_)
    if density is not None:
        return VirtualTensor(inner, allocation, density)
    return lying_in(allocation, inner)


def lying_in(allocation, inner: torch.Tensor) -> VirtualTensor:
    """A VirtualTensor of a dense ``inner``, in a third less time than by its class. Lazy as ``inner`` is."""
    self = _make_wrapper(VirtualTensor, inner.shape, inner.stride(), inner.storage_offset(), None, inner.dtype,
                         torch.strided, DEVICE)
    self.within = inner
    self.allocation = allocation
    if inner.is_conj() or inner.is_neg():  # methods: they take half of what functions take, in every view
        lazily(self, inner.is_conj(), inner.is_neg())
    return self


def lazily(tensor: VirtualTensor, conjugate: bool, negative: bool) -> VirtualTensor:
    """``tensor``, of which PyTorch knows that it holds the conjugates or negatives of its elements."""
    if conjugate:
        torch._C._set_conj(tensor, True)
    if negative:
        torch._C._set_neg(tensor, True)
    return tensor


def as_zero(tensor: VirtualTensor) -> VirtualTensor:
    """``tensor``, all zeros, as one with which PyTorch does not compute: zero times infinity is zero."""
    return VirtualTensor(tensor.within, tensor.allocation,
                         _extra_dispatch_keys=torch._C.DispatchKeySet(torch._C.DispatchKey.ZeroTensor))
