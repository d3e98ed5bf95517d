"""Pinned host memory without a driver: ordinary memory, remembered as pinned while it lives."""

from __future__ import annotations

import functools
import sys
import weakref

import numpy as np
import torch
from torch.utils._device import _device_constructors

from ..process.eager import eager
from ..process.state import state


class Block:
    """A piece of pinned memory. ``copies``: those between it and the device that the host has not waited for
    (:mod:`.arrivals`)."""

    __slots__ = ("copies",)

    def __init__(self):
        self.copies: list = []


_pinned: dict[int, Block] = {}  # by its address

# Functions of `torch`, and methods, with a `pin_memory` argument. PyTorch asks the device's C++ hooks for the memory, which
# a backend in Python cannot give.
FACTORIES = ("empty", "empty_like", "empty_permuted", "empty_strided", "zeros", "zeros_like", "ones", "ones_like", "full",
             "full_like", "rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm", "arange",
             "linspace", "logspace", "eye", "tensor")
originals: dict[str, object] = {}  # of `torch`, as they were before :func:`install`
METHODS = ("new_empty", "new_empty_strided", "new_zeros", "new_ones", "new_full")


def _zeros_like(source: torch.Tensor) -> torch.Tensor:
    """Pinned memory in the dtype and layout of a copy of the CPU tensor ``source``, whose pages nobody has touched."""
    size = max(1, source.numel() * source.element_size())
    # NumPy owns the memory, so that its end can be seen: torch keeps the array alive with the storage.
    buffer = np.zeros(size, dtype=np.uint8)
    address = buffer.ctypes.data
    _pinned[address] = Block()
    weakref.finalize(buffer, _pinned.pop, address, None)
    flat = torch.from_numpy(buffer)[: source.numel() * source.element_size()].view(source.dtype)
    return flat.as_strided(source.shape, torch.empty_like(source, device="meta").stride())


def without_values(source: torch.Tensor) -> torch.Tensor:
    """Pinned memory in the dtype and layout of a copy of the CPU tensor ``source``. On CUDA it holds what happens to be
    there; here, so that nobody takes it for a value, what :func:`spoil` puts there. Zeros in shape-only mode."""
    made = _zeros_like(source)
    return made if state.shape_only is not None else spoil(made)


def spoil(made: torch.Tensor) -> torch.Tensor:
    """Fill the CPU tensor ``made`` with what PyTorch fills uninitialised memory with where it is asked to
    (``torch.utils.deterministic.fill_uninitialized_memory``): NaN, or the largest integer."""
    if made.is_floating_point() or made.is_complex():
        return made.fill_(float("nan"))
    return made.fill_(True if made.dtype == torch.bool else torch.iinfo(made.dtype).max)


def pin(source: torch.Tensor) -> torch.Tensor:
    """A copy of the CPU tensor ``source`` in pinned memory."""
    copied = _zeros_like(source)
    if state.shape_only is None:  # else nobody reads the values: do not touch the pages
        copied.copy_(source)
    return copied


def block_of(tensor: torch.Tensor) -> Block | None:
    """The pinned memory that the CPU tensor lies in, else None."""
    return _pinned.get(tensor.untyped_storage().data_ptr()) if _pinned else None


def is_pinned(tensor: torch.Tensor) -> bool:
    """Whether the CPU tensor lies in pinned memory."""
    return block_of(tensor) is not None


def _pinning(original):
    """The factory ``original`` with pinned memory of ours."""
    memory = without_values if "empty" in original.__name__ else pin

    @functools.wraps(original)
    @eager
    def factory(*args, **kwargs):
        if not kwargs.get("pin_memory"):
            return original(*args, **kwargs)
        made = original(*args, **{**kwargs, "pin_memory": False})
        if made.device.type != "cpu":
            raise RuntimeError(f"only dense CPU tensors can be pinned, not one on {made.device}")
        with torch.no_grad():
            return memory(made.detach()).requires_grad_(made.requires_grad)

    return factory


def _save_on_cpu() -> None:
    """``save_on_cpu`` pins memory for the device that ``device_type`` names: "cuda", where a program names none. That stands
    for the device here."""
    kind = torch.autograd.graph.save_on_cpu
    original = kind.__init__

    @functools.wraps(original)
    def init(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        original(self, pin_memory, "vgpu" if device_type == "cuda" and not torch.cuda.is_available() else device_type)

    kind.__init__ = init


def install() -> None:
    """Give the factories of PyTorch pinned memory."""
    _save_on_cpu()
    _device_constructors()  # `with torch.device(…)` knows the factories by what they are now, and remembers
    for owner, names in ((torch, FACTORIES), (torch.Tensor, METHODS)):
        for name in names:
            original = getattr(owner, name)
            factory = _pinning(original)
            if owner is torch:
                originals[name] = original
            setattr(owner, name, factory)
            # TorchScript knows built-in functions by their identity.
            builtins = sys.modules.get("torch.jit._builtins")
            if owner is torch and builtins is not None and builtins._builtin_table is not None:
                builtins._register_builtin(factory, f"aten::{name}")
