"""The memory under the device's tensors, as ``torch.UntypedStorage``: sizes, addresses, resizing, copies.

To C++ such a storage is an empty one of the device, so that no operator of PyTorch's can read memory that is not there.
All that a program can ask of it is done here, by operators of the device on a tensor of its bytes.
"""

# mypy: disable-error-code="arg-type, assignment, call-arg, override"
# Redefines a class of PyTorch's: its methods are more than the stubs name, and take other tensors.
from __future__ import annotations

import functools
import weakref
from typing import cast

import torch

from ..hardware.kernels import costs
from ..hardware.memory.memory import OutOfMemory
from ..process.state import DEVICE, state
from . import shrunk
from .dispatch import check_device, handles, of_the_device, unwrap
from .tensor import VirtualTensor

aten = torch.ops.aten
_allocate = torch.UntypedStorage.__new__
_copy = torch.UntypedStorage.copy_


# Where the device is in another process: address → who stands for that memory here, so that it differs from other memory.
_linked: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


class VirtualStorage(torch.UntypedStorage):
    """Memory of the device. ``_any``: some tensor that lies in it."""

    _any: VirtualTensor

    @classmethod
    def of(cls, tensor: VirtualTensor) -> VirtualStorage:
        """The memory of ``tensor``."""
        address = 0
        if state.link is not None:
            address = state.link.ask("bytes", tensor.within.number).data_ptr()
            if address and address in _linked:
                return _linked[address]
        # Only a tensor can make one: the device has no allocator that C++ knows.
        maker = torch.Tensor._make_wrapper_subclass(VirtualTensor, (0,), dtype=torch.uint8, device=DEVICE)
        self = cast(VirtualStorage, torch._C.TensorBase.untyped_storage(maker))
        self.__class__ = cls
        self._any = VirtualTensor(tensor.within, tensor.allocation)
        if address:
            _linked[address] = self
        return self

    @classmethod
    def holding(cls, values) -> VirtualStorage:
        """New memory: of so many bytes, or with these (a sequence, or a storage of the CPU)."""
        if isinstance(values, int):
            return cls.of(torch.empty(values, dtype=torch.uint8, device=DEVICE))
        if isinstance(values, torch.UntypedStorage):
            return cls.of(_bytes(values).to(DEVICE))
        return cls.of(torch.tensor(values, dtype=torch.uint8, device=DEVICE))

    # -- what it is -----------------------------------------------------------------------------

    @property
    def bytes(self) -> VirtualTensor:
        """All of it, uint8 [nbytes]. Good until the memory is resized."""
        if state.link is not None:
            return state.link.ask("bytes", self._any.within.number)
        return whole(self._any)

    @property
    def device(self) -> torch.device:
        return DEVICE

    @property
    def _cdata(self) -> int:
        # Who asks compares, while the memory lives; or hands the number to C++, which looks for flags of a storage there.
        return super()._cdata if state.link is not None else self._any.within.untyped_storage()._cdata

    def nbytes(self) -> int:
        """Its size."""
        return self.bytes.numel() if state.link is not None else self._any.within.untyped_storage().nbytes()

    size = __len__ = nbytes

    def element_size(self) -> int:
        """1."""
        return 1

    def data_ptr(self) -> int:
        """Where the card would have it (``Tensor.data_ptr``); 0 for no bytes."""
        return self.bytes.data_ptr() if state.link is not None else self._any.allocation.address

    def resizable(self) -> bool:
        """Always."""
        return True

    def is_shared(self) -> bool:
        """True, as for all of CUDA's."""
        return True

    def is_pinned(self, device=None) -> bool:
        """Never: pinned memory is the host's."""
        return False

    # -- what can be done with it ---------------------------------------------------------------

    @of_the_device
    def resize_(self, nbytes: int) -> VirtualStorage:
        """Give it ``nbytes``, under all tensors that lie in it; what fits of its content is kept. Raises
        torch.OutOfMemoryError, and keeps the old memory."""
        if nbytes < 0:
            raise RuntimeError(f"a storage cannot have {nbytes} bytes")
        if state.link is not None:
            state.link.ask("resize_storage", self._any.within.number, int(nbytes))
            if nbytes:
                _linked[self.data_ptr()] = self
        else:
            resize(self._any, int(nbytes))
        return self

    def copy_(self, source, non_blocking: bool | None = None) -> VirtualStorage:
        """Take over the bytes of a storage of the same size, on any device."""
        return _copy_storage(self, source, non_blocking)

    def fill_(self, value: int) -> VirtualStorage:
        """Set each byte."""
        self.bytes.fill_(value)
        return self

    def new(self) -> VirtualStorage:
        """An empty one."""
        return VirtualStorage.holding(0)

    def __deepcopy__(self, memo):
        known, address = memo.setdefault("torch", {}), self.data_ptr()
        if not address or address not in known:  # no bytes are nobody's
            known[address] = self.clone()
        return known[address]

    def clone(self) -> VirtualStorage:
        """A copy on the device."""
        return VirtualStorage.of(self.bytes.clone())

    def cpu(self) -> torch.UntypedStorage:
        """A copy in the host's memory."""
        return self.bytes.cpu().untyped_storage()

    def tolist(self) -> list[int]:
        """Its bytes; a read-back."""
        return self.bytes.tolist()

    def __iter__(self):
        return iter(self.tolist())

    def __getitem__(self, index):
        if isinstance(index, slice):
            start, stop, step = index.indices(self.nbytes())
            if step != 1:
                raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
            return VirtualStorage.of(self.bytes[start:max(start, stop)].clone())
        if not -self.nbytes() <= index < self.nbytes():
            raise IndexError(f"index {index} out of range for storage of size {self.nbytes()}")
        return self.bytes[index].item()

    def __setitem__(self, index, value):
        self.bytes[index] = value

    def __delitem__(self, index):
        raise TypeError("a storage's bytes cannot be deleted: slice it, or resize_() it")

    def __repr__(self):
        values = "".join(f" {value}\n" for value in self)
        return f"{values}[torch.storage.UntypedStorage(device={DEVICE}) of size {len(self)}]"

    def _byteswap(self, element_size: int) -> None:
        swapped = self.bytes.view(-1, element_size).flip(1)
        self.bytes.copy_(swapped.flatten())

    # -- files ----------------------------------------------------------------------------------

    def _write_file(self, *args) -> None:
        self.cpu()._write_file(*args)

    def _set_from_file(self, file, offset, is_real_file: bool, element_size: int) -> VirtualStorage:
        read = torch.UntypedStorage(self.nbytes())
        read._set_from_file(file, offset, is_real_file, element_size)
        return self.copy_(read)

    # -- other processes ------------------------------------------------------------------------

    def share_memory_(self, *args) -> VirtualStorage:
        """Nothing to do, as on CUDA: what is sent to another process is sent by its queue."""
        return self

    # Of the memory, not of this object: it lives as long as a tensor that lies in it.

    def _weak_ref(self, *args):
        return super()._weak_ref(*args) if state.link is not None else self._any.within.untyped_storage()._weak_ref(*args)

    def _fix_weakref(self) -> None:
        """Nothing: the memory outlives this object."""


def _untyped_storage(self: VirtualTensor) -> VirtualStorage:
    """The memory that the tensor lies in."""
    return VirtualStorage.of(self)


VirtualTensor.untyped_storage = _untyped_storage


def _refusing(name: str):
    def refuse(self, *args, **kwargs):
        raise NotImplementedError(f"{name} is not there for memory on {DEVICE}: send a tensor to another process, or .cpu()")

    return refuse


for _name in ("_share_cuda_", "_share_fd_cpu_", "_share_filename_cpu_", "_get_shared_fd", "_shared_decref", "_shared_incref",
              "_set_cdata", "_swap_data_ptr_", "_resize_with_addr_"):
    if hasattr(torch.UntypedStorage, _name):
        setattr(VirtualStorage, _name, _refusing(_name))
# A file says what kind of storage it holds by the name of its class; a traceback and `print` show that name too.
VirtualStorage.__name__ = VirtualStorage.__qualname__ = "UntypedStorage"


# -- memory and the tensors in it -------------------------------------------------------------------


def whole(tensor: VirtualTensor) -> VirtualTensor:
    """All bytes of the memory that ``tensor`` lies in, uint8."""
    inner = tensor.within
    everything = torch.empty(0, dtype=torch.uint8, device=inner.device).set_(inner.untyped_storage())
    return VirtualTensor(everything, tensor.allocation)


def resize(tensor: VirtualTensor, nbytes: int) -> None:
    """Give the memory of ``tensor`` a size of ``nbytes``. Raises torch.OutOfMemoryError."""
    inner, allocation = tensor.within.untyped_storage(), tensor.allocation
    before, stream = inner.nbytes(), state.timeline.current
    if nbytes == before:
        return
    try:
        allocation.resize(nbytes)
    except OutOfMemory as error:
        raise torch.OutOfMemoryError(str(error)) from None
    allocation.made_on = allocation.stream
    allocation.made = stream.count
    kept = min(before, nbytes)
    if kept:
        kernel = costs.Kernel("Memcpy DtoD (Device -> Device)", "pointwise", 2 * kept)
        duration_ns, share = kernel.duration_and_share(state.card)
        state.timeline.launch(kernel.name, duration_ns, category="gpu_memcpy", call="cudaMemcpyAsync", share=share)
    inner.resize_(nbytes)
    shrunk.note(allocation, before, nbytes)


def take(target: VirtualTensor, storage: VirtualStorage, offset: int = 0, size=None, stride=None) -> VirtualTensor:
    """``target.set_(storage, …)``: the tensor lies in that memory from now on; ``offset``, ``size`` and ``stride`` in
    elements of its dtype. Memory that is too small is made larger, as on CUDA (ATen, cuda/Resize.h,
    ``maybe_resize_storage_cuda``)."""
    itemsize = target.element_size()
    size = (storage.nbytes() // itemsize - offset,) if size is None else tuple(size)
    if not stride:
        stride = torch.empty(size, device="meta").stride()
    last = offset + sum((many - 1) * step for many, step in zip(size, stride)) + 1 if 0 not in size else 0
    if last * itemsize > storage.nbytes():
        storage.resize_(last * itemsize)
    there = storage._any
    inner = torch.empty(0, dtype=target.dtype, device=there.within.device)
    become(target, VirtualTensor(inner.set_(there.within.untyped_storage(), offset, size, stride), there.allocation))
    return target


def of_the_card(storage: torch.UntypedStorage) -> VirtualStorage:
    """``storage``. Raises RuntimeError where it is another device's."""
    if not isinstance(storage, VirtualStorage):
        if storage.device.type == DEVICE.type:
            raise NotImplementedError(f"C++ cannot read the memory of a tensor on {DEVICE}: give it .cpu()")
        raise RuntimeError(f'Attempted to set the storage of a tensor on device "{DEVICE}" to a storage on different device '
                           f'"{storage.device}"')
    return storage


def become(target: VirtualTensor, other: VirtualTensor) -> None:
    """Let ``target`` have the memory, sizes and strides of ``other``."""
    with torch._C._DisableTorchDispatch():
        target.data = other


@handles("set_")
def _set(operator, args, kwargs):
    target, *rest = args
    if rest and isinstance(rest[0], torch.UntypedStorage):
        return take(target, of_the_card(rest[0]), *rest[1:], **kwargs)
    inner_args, inner_kwargs, _ = unwrap(operator, args, kwargs)
    operator.func(*inner_args, **inner_kwargs)
    target.follow(state.memory)
    return target


# -- what PyTorch does with any storage -------------------------------------------------------------


def _bytes(storage) -> torch.Tensor:
    if isinstance(storage, VirtualStorage):
        return storage.bytes
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


@functools.wraps(_copy)
def _copy_storage(self, source, non_blocking: bool | None = None):
    source = source._untyped_storage if isinstance(source, torch.TypedStorage) else source
    if not isinstance(self, VirtualStorage) and not isinstance(source, VirtualStorage):
        return _copy(self, source, non_blocking)
    if self.nbytes() != source.nbytes():
        raise RuntimeError(f"size does not match, self was {self.nbytes()} bytes but src was {source.nbytes()} bytes")
    _bytes(self).copy_(_bytes(source), non_blocking=bool(non_blocking))
    return self


@functools.wraps(_allocate)
def _new(cls, *args, device=None, **kwargs):
    if device is not None:
        kwargs["device"] = device = torch.device(device)
        if device.type == DEVICE.type:
            check_device(device)
            return VirtualStorage.holding(args[0] if args else 0)
    return _allocate(cls, *args, **kwargs)


def _wrapping(original):
    """``TypedStorage``'s way to make another of its kind, which knows ``torch.UntypedStorage`` itself only."""

    @functools.wraps(original)
    def new(self, storage):
        if isinstance(storage, VirtualStorage):
            return torch.TypedStorage(wrap_storage=storage, dtype=self.dtype, _internal=True)
        return original(self, storage)

    return new


def install() -> None:
    """Let ``torch.UntypedStorage`` be made on the device and copied from it and to it."""
    torch.UntypedStorage.__new__ = _new
    torch.UntypedStorage.copy_ = _copy_storage
    torch.TypedStorage._new_wrapped_storage = _wrapping(torch.TypedStorage._new_wrapped_storage)
    is_storage = torch.is_storage
    torch.is_storage = functools.wraps(is_storage)(lambda obj: isinstance(obj, VirtualStorage) or is_storage(obj))
