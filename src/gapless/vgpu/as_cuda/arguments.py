"""Functions of PyTorch that take a device: ``cuda`` is the virtual one to them."""

# mypy: disable-error-code="attr-defined"
# What is put in the place of PyTorch's own is not of the type that its stubs name, or is nothing that they know.
from __future__ import annotations

import functools

import torch
from torch.utils import _device

from . import asking
from .asking import check, meant

_LIKE = ("empty_like", "full_like", "ones_like", "rand_like", "randint_like", "randn_like", "zeros_like")
_NEW = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_tensor", "new_zeros")
# Namespaces that _device_constructors() takes its functions from.
_SPACES = (torch, torch.fft, torch.nested, torch.sparse, torch.signal.windows)


def _by_name(function):
    """``function`` with its keyword ``device`` translated."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        if kwargs.get("device") is not None:
            kwargs["device"] = meant(kwargs["device"])
        return function(*args, **kwargs)

    return call


def _moving(function):
    """``Tensor.to`` and what reads its arguments: the device is the first one, or named; a number is a device's."""

    def of(place):
        if isinstance(place, int) and not isinstance(place, bool):
            check(place)
            return asking.numbering.place
        return meant(place)

    @functools.wraps(function)
    def call(*args, **kwargs):
        first = call.first
        if len(args) > first:
            place = args[first]
            if isinstance(place, (str, int, torch.device)):
                args = (*args[:first], of(place), *args[first + 1:])
        if kwargs.get("device") is not None:
            kwargs["device"] = of(kwargs["device"])
        return function(*args, **kwargs)

    return call


def _cuda(self, device=None, non_blocking: bool = False, memory_format=torch.preserve_format):
    """The tensor on the virtual GPU."""
    if isinstance(device, int) and not isinstance(device, bool):
        check(device)
    elif device is not None:
        meant(device)
    return torch.Tensor.to(self, asking.numbering.place, non_blocking=non_blocking, memory_format=memory_format)


def _first(function):
    """``function`` with its first argument translated, by place or called ``device``."""

    @functools.wraps(function, updated=())
    def call(*args, **kwargs):
        if args:
            args = (meant(args[0]), *args[1:])
        if kwargs.get("device") is not None:
            kwargs["device"] = meant(kwargs["device"])
        return function(*args, **kwargs)

    return call


def _second(function):
    """A method with its first argument translated."""

    @functools.wraps(function)
    def call(self, *args, **kwargs):
        if args:
            args = (meant(args[0]), *args[1:])
        if kwargs.get("device") is not None:
            kwargs["device"] = meant(kwargs["device"])
        return function(self, *args, **kwargs)

    return call


def _pinned(function):
    @functools.wraps(function)
    def call(self, device=None):
        """Pinned memory is every card's: the argument is deprecated."""
        return function(self)

    return call


def install(replaced) -> None:
    """Translate from now on."""
    # By name: the module may hold another function than PyTorch's own by now, as gapless.vgpu.ordering.pinned puts there.
    names = {function.__name__.removeprefix("fft_") for function in _device._device_constructors()}
    for space in _SPACES:
        for name in sorted(names & set(vars(space))):
            if callable(getattr(space, name)):
                replaced.put(space, name, _by_name(getattr(space, name)))
    for name in _LIKE:
        replaced.put(torch, name, _by_name(getattr(torch, name)))
    for name in _NEW:
        replaced.put(torch.Tensor, name, _by_name(getattr(torch.Tensor, name)))
    for owner, name, first in ((torch.Tensor, "to", 1), (torch._C._nn, "_parse_to", 0)):
        moving = _moving(getattr(owner, name))
        moving.first = first
        replaced.put(owner, name, moving)
    replaced.put(torch.Tensor, "cuda", _cuda)
    replaced.put(torch.Tensor, "pin_memory", _pinned(torch.Tensor.pin_memory))
    replaced.put(torch.Tensor, "is_pinned", _pinned(torch.Tensor.is_pinned))
    replaced.put(torch.nn.Module, "cuda", lambda self, device=None: self._apply(lambda each: each.cuda(device)))
    for name in ("set_default_device", "get_device_module"):
        replaced.put(torch, name, _first(getattr(torch, name)))
    replaced.put(_device.DeviceContext, "__init__", _second(_device.DeviceContext.__init__))
    generator = type(torch.Generator)
    replaced.put(generator, "__call__", _second(generator.__call__))
