"""``module.to("vgpu")`` keeps each parameter the same object, with its class and what hangs on it, as a move to CUDA does.

PyTorch puts the moved data into the old parameter where both are of one kind of tensor, else it makes a new parameter.
A wrapper is another kind: weights shared by two layers would come apart, and an optimizer made before the move
would train tensors that the model has no more. PyTorch can swap the two tensors instead; this asks it to. Modules of
TorchScript have their parameters in C++ and get new ones.
"""

# mypy: disable-error-code="attr-defined, union-attr"
# What is put in the place of PyTorch's own is not of the type that its stubs name, or is nothing that they know.
from __future__ import annotations

import functools
import threading
import warnings
from contextlib import contextmanager

import torch
from torch.nn.modules import module as nn_module
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter, UninitializedTensorMixin, is_lazy

from ..core.identity import crosses, exchange
from ..core.tensor import OWN_ATTRIBUTES, VirtualTensor, both
from ..process.state import DEVICE

_moving = threading.local()  # .crosses: whether the parameter being moved changes its kind, and can be swapped


_HELD = ("a profile with record_shapes=True has seen this parameter, so the module gets a new one, which CUDA does not "
         "need: make the optimizer after the move")


def _can_be_swapped(parameter: torch.Tensor) -> bool:
    # What torch.utils.swap_tensors asks: nothing in C++ holds the tensor (an AccumulateGrad node may), nor points to it
    # weakly, as a profile of shapes does to the inputs of each operator: PyTorch then refuses, with itself too.
    if parameter._use_count() > 2 or not parameter.is_leaf:
        return False
    try:
        torch._C._swap_tensor_impl(parameter, parameter)
    except RuntimeError:
        if isinstance(parameter, torch.nn.Parameter):
            warnings.warn(_HELD, stacklevel=2)
        return False
    return True


@contextmanager
def _unseen_by_profiles():
    """Inside, a profile of PyTorch's does not see operators, and so points to none of their inputs."""
    if not torch.autograd._profiler_enabled():
        yield
        return
    torch.autograd._enable_record_function(False)
    try:
        yield
    finally:
        torch.autograd._enable_record_function(True)


def _watching(function):
    """``function``, which moves one tensor, that notes whether it crosses between the device and another."""

    @functools.wraps(function, updated=())
    def move(tensor):
        if is_lazy(tensor):  # it is on the CPU, wherever it is for
            _moving.crosses = False
            stand_in = function(torch.empty(0, dtype=tensor.data.dtype, device=tensor.device))
            for_the_device = isinstance(stand_in, VirtualTensor)
            moved = tensor.to(stand_in.dtype) if for_the_device else function(tensor)
            tensor._is_for_the_device = moved._is_for_the_device = for_the_device
            return moved
        moved = function(tensor)
        crosses = isinstance(tensor, VirtualTensor) != isinstance(moved, VirtualTensor) and _can_be_swapped(tensor)
        if crosses and isinstance(tensor, torch.nn.Parameter):
            hung_on = {name: value for name, value in vars(tensor).items() if name not in OWN_ATTRIBUTES}
            kind = getattr(type(tensor), "program_class", type(tensor))
            if hung_on or kind not in (torch.nn.Parameter, VirtualTensor):
                move.to_restore.append((tensor, kind, hung_on))
        _moving.crosses = crosses
        return moved

    move.to_restore = []
    return move


def _restore(parameters: list) -> None:
    """Give parameters that were swapped the class and the attributes that they had."""
    while parameters:
        parameter, kind, hung_on = parameters.pop()
        vars(parameter).update(hung_on)
        if isinstance(parameter, VirtualTensor):
            parameter.__class__ = both(kind, VirtualTensor) if kind is not torch.nn.Parameter else VirtualTensor
        elif kind is not VirtualTensor:
            parameter.__class__ = kind


def _apply_keeping(original):
    @functools.wraps(original)
    def apply(self, fn, recurse=True):
        if isinstance(self, torch.jit.ScriptModule):
            return _apply_to_script(self, fn)
        if hasattr(fn, "to_restore"):  # of a module in another
            return original(self, fn, recurse)
        watching = _watching(fn)
        with _unseen_by_profiles():
            result = original(self, watching, recurse)
        _restore(watching.to_restore)
        return result

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


def _making(cls):
    """Lazy parameters have no values: they are made on the CPU, and say that they are for the device."""
    original = cls.__new__

    def __new__(cls, *args, **kwargs):
        device = args[1] if len(args) > 1 else kwargs.get("device")
        here = torch.device(torch.get_default_device() if device is None else device).type == DEVICE.type
        if here:
            args, kwargs = args[:1], {**kwargs, **dict(zip(("dtype", "persistent"), args[2:])), "device": "cpu"}
        made = original(cls, *args, **kwargs)
        made._is_for_the_device = here
        return made

    cls.__new__ = __new__


def _device_of_lazy(self) -> torch.device:
    """Where its values will be."""
    return DEVICE if getattr(self, "_is_for_the_device", False) else torch.Tensor.device.__get__(self)


def _materializing(original):
    @functools.wraps(original)
    def materialize(self, shape, device=None, dtype=None):
        elsewhere = device is not None and torch.device(device).type != DEVICE.type
        if elsewhere or not getattr(self, "_is_for_the_device", False):
            return original(self, shape, device, dtype)
        made = torch.empty(shape, device=DEVICE, dtype=dtype or self.data.dtype)
        if isinstance(self, torch.nn.Parameter):
            made = torch.nn.Parameter(made, self.requires_grad)
        torch.utils.swap_tensors(self, made)

    return materialize


def _subclassed(original):
    """``torch.Tensor._make_subclass``, which detaches the data and makes it one of a class."""

    @functools.wraps(original)
    def _make_subclass(cls, data, require_grad=False, **options):
        if not isinstance(data, VirtualTensor) or issubclass(VirtualTensor, cls):
            return original(cls, data, require_grad, **options)
        made = data.detach().requires_grad_(require_grad)  # before it is one of a class that may refuse this
        made.__class__ = both(cls, type(data))
        return made

    return staticmethod(_make_subclass)


def _of_a_class(original):
    """``nn.Parameter(data)`` of a class of the program's."""

    @functools.wraps(original)
    def __new__(cls, data=None, requires_grad=True):
        made = original(cls, data, requires_grad)
        if isinstance(made, VirtualTensor) and cls is not torch.nn.Parameter:
            made.__class__ = both(cls, type(made))
        return made

    return __new__


def install() -> None:
    """Change how ``torch.nn.Module`` moves, and how tensors of a program's own classes are made."""
    torch.nn.Module._apply = _apply_keeping(torch.nn.Module._apply)
    nn_module.is_traceable_wrapper_subclass = _swaps(nn_module.is_traceable_wrapper_subclass)
    torch.utils.swap_tensors = _swapping(torch.utils.swap_tensors)
    torch.jit.load = _loading(torch.jit.load)
    _making(UninitializedParameter)
    _making(UninitializedBuffer)
    UninitializedTensorMixin.device = property(_device_of_lazy)
    UninitializedTensorMixin.materialize = _materializing(UninitializedTensorMixin.materialize)
    torch.Tensor._make_subclass = _subclassed(torch.Tensor._make_subclass)
    torch.nn.Parameter.__new__ = _of_a_class(torch.nn.Parameter.__new__)
