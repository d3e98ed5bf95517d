"""``module.to("vgpu")`` keeps each parameter the same object, as a move to CUDA does.

PyTorch puts the moved data into the old parameter where both are of one kind of tensor, else it makes a new parameter.
A wrapper is another kind: weights shared by two layers would come apart, and an optimizer made before the move
would train tensors that the model has no more. PyTorch can swap the two tensors instead; this asks it to. Modules of
TorchScript have their parameters in C++ and get new ones.
"""

from __future__ import annotations

import functools
import threading

import torch
from torch.nn.modules import module as nn_module
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

from .identity import crosses, exchange
from .tensor import DEVICE, VirtualTensor

_moving = threading.local()  # .crosses: whether the parameter being moved changes its kind, and can be swapped


def _can_be_swapped(parameter: torch.Tensor) -> bool:
    # What torch.utils.swap_tensors asks: nothing in C++ holds the tensor (an AccumulateGrad node may).
    return parameter._use_count() <= 2 and parameter.is_leaf


def _watching(function):
    """``function``, which moves one tensor, that notes whether it crosses between the device and another."""

    @functools.wraps(function, updated=())
    def move(tensor):
        moved = function(tensor)
        if isinstance(moved, VirtualTensor) and is_lazy(tensor):
            raise NotImplementedError(f"a lazy module cannot move to {DEVICE} before it knows its sizes: run it once on the "
                                      "CPU, then move it")
        _moving.crosses = isinstance(tensor, VirtualTensor) != isinstance(moved, VirtualTensor) and _can_be_swapped(tensor)
        return moved

    return move


def _apply_keeping(original):
    @functools.wraps(original)
    def apply(self, fn, recurse=True):
        if isinstance(self, torch.jit.ScriptModule):
            return _apply_to_script(self, fn)
        return original(self, fn if getattr(fn, "_watches", False) else _mark(_watching(fn)), recurse)

    return apply


def _apply_to_script(module: torch.jit.ScriptModule, fn) -> torch.jit.ScriptModule:
    for child in module.children():
        child._apply(fn)
    for tensors in (module._parameters, module._buffers):
        for name, tensor in list(tensors.items()):
            with torch.no_grad():
                moved = fn(tensor)
                if not crosses(tensor, moved):
                    tensor.data = moved
                    continue
                moved = moved.detach().requires_grad_(tensor.requires_grad)
                moved.grad = None if tensor.grad is None else fn(tensor.grad)
            tensors[name] = moved
    return module


def _mark(function):
    function._watches = True
    return function


def _swaps(original):
    """The question that PyTorch asks of a moved parameter: whether to swap."""

    @functools.wraps(original)
    def is_traceable_wrapper_subclass(moved):
        _moving.swaps, _moving.crosses = getattr(_moving, "crosses", False), False
        return _moving.swaps or original(moved)

    return is_traceable_wrapper_subclass


def _swapping(original):
    """``torch.utils.swap_tensors``, which a module's move calls after that question."""

    @functools.wraps(original)
    def swap_tensors(one, other):
        return exchange(one, other) if getattr(_moving, "swaps", False) and crosses(one, other) else original(one, other)

    return swap_tensors


def _loading(original):
    """``torch.jit.load``, whose C++ would make tensors on the device that have no values."""

    @functools.wraps(original)
    def load(f, map_location=None, *args, **kwargs):
        if map_location is None or torch.device(map_location).type != DEVICE.type:
            return original(f, map_location, *args, **kwargs)
        return original(f, "cpu", *args, **kwargs).to(map_location)

    return load


def _refusing(cls):
    original = cls.__new__

    def __new__(cls, *args, **kwargs):
        device = args[1] if len(args) > 1 else kwargs.get("device")
        if device is not None and torch.device(device).type == DEVICE.type:
            raise NotImplementedError(f"a lazy module cannot be made on {DEVICE}: make it on the CPU, run it once, then "
                                      "move it")
        return original(cls, *args, **kwargs)

    cls.__new__ = __new__


def install() -> None:
    """Change how ``torch.nn.Module`` moves."""
    torch.nn.Module._apply = _apply_keeping(torch.nn.Module._apply)
    nn_module.is_traceable_wrapper_subclass = _swaps(nn_module.is_traceable_wrapper_subclass)
    torch.utils.swap_tensors = _swapping(torch.utils.swap_tensors)
    torch.jit.load = _loading(torch.jit.load)
    _refusing(UninitializedParameter)
    _refusing(UninitializedBuffer)
