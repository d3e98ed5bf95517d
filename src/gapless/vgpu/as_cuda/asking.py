"""What a program hears of the device that it calls ``cuda``, and who counts as the program.

PyTorch's own Python, this package and the libraries that know the virtual GPU (:mod:`gapless.vgpu.libraries`) handle
``vgpu:0`` as such. All others were written for ``cuda``: they compare ``device.type`` with it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import torch
from torch.nested._internal.nested_tensor import NestedTensor
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]  # its stub lacks it
from torch.nn.utils.rnn import PackedSequence

from ..core.random_numbers import VirtualGenerator
from ..core.storage import VirtualStorage
from ..core.tensor import VirtualTensor
from ..libraries import TOLD
from ..ordering.streams import Event, Stream
from ..process.state import DEVICE, NAME

_KNOW = frozenset({"torch", "gapless", *TOLD})


@dataclass(frozen=True)
class Numbering:
    """The number of this process's card among ``count`` that ``torch.cuda`` tells of."""

    index: int
    count: int
    place: torch.device = DEVICE  # where its tensors are


numbering: Numbering | None = None  # None: `cuda` is not the virtual GPU


def by_the_program(depth: int = 1) -> bool:
    """Whether the program asks: the frame ``depth`` above the caller's is no one's who knows the virtual GPU."""
    return sys._getframe(depth + 1).f_globals.get("__name__", "").partition(".")[0] not in _KNOW


def cuda_device() -> torch.device:
    """What the program calls its card."""
    return torch.device("cuda", numbering.index)


def meant(device):
    """``device`` (a torch.device, a name or anything else), or the virtual GPU where it means ``cuda``. Raises RuntimeError
    for a card of another number."""
    if isinstance(device, str):
        if not device.startswith("cuda"):
            return device
        named = torch.device(device)
    elif isinstance(device, torch.device) and device.type == "cuda":
        named = device
    else:
        return device
    check(named.index)
    return numbering.place


def check(index: int | None) -> None:
    """Raise RuntimeError unless ``index`` is this process's card; None is."""
    if index not in (None, -1, numbering.index):
        raise RuntimeError(f"CUDA error: invalid device ordinal: cuda:{index}; `cuda` is a virtual GPU here, and this "
                           f"process has one: cuda:{numbering.index}")


def _type(plain):
    def type(self, dtype=None, non_blocking: bool = False, **kwargs):
        """The tensor's type by name, ``torch.cuda.FloatTensor``; or the tensor converted to ``dtype``."""
        if dtype is None:
            return plain(self).replace(f"torch.{NAME}.", "torch.cuda.")
        kind = dtype if isinstance(dtype, str) else f"{getattr(dtype, '__module__', '')}.{getattr(dtype, '__name__', '')}"
        if kind.startswith("torch.cuda."):
            wanted = getattr(torch, kind.removeprefix("torch.cuda.")).dtype
            return self.to(numbering.place, wanted, non_blocking=non_blocking)
        return plain(self, dtype, non_blocking, **kwargs)

    return type


def _told(find):
    """``find``, which gives a device, with the answer that the one who asks knows."""

    def device(*args) -> torch.device:
        found = find(*args)
        return cuda_device() if found == DEVICE and by_the_program() else found

    return device


def _device_of(owner):
    """A function: what ``device`` is of one of a class."""
    plain = owner.device
    return plain.__get__ if hasattr(plain, "__get__") else lambda self: plain  # a torch.device, for all of them


def _is_there(find) -> property:
    return property(lambda self: by_the_program() and find(self) == DEVICE, doc="Whether it is on the card, for the program")


_PLACED = (VirtualTensor, UninitializedTensorMixin, NestedTensor, VirtualStorage, torch.TypedStorage, VirtualGenerator,
           Stream, Event)


def install(replaced) -> None:
    """Let tensors of the device say that they are on ``cuda``, and all else that is there."""
    for owner in _PLACED:
        find = _device_of(owner)
        replaced.put(owner, "device", property(_told(find), doc="The device, as the one who asks knows it."))
        if hasattr(owner, "is_cuda"):
            replaced.put(owner, "is_cuda", _is_there(find))
    replaced.put(PackedSequence, "is_cuda", property(lambda self: by_the_program() and isinstance(self.data, VirtualTensor)))
    replaced.put(torch, "get_default_device", _told(torch.get_default_device))
    replaced.put(VirtualTensor, "get_device", lambda self: numbering.index if by_the_program() else DEVICE.index)
    replaced.put(torch.Tensor, "type", _type(torch.Tensor.type))
