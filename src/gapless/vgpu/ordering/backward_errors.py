"""Lets an error inside a backward pass reach the user instead of ending the process.

PyTorch's Python device guard is asked for its device type while C++ unwinds from an operator that raised,
from a destructor that may not throw, with Python's error still pending: any call into Python then ends in
``std::terminate``. So the guard takes the pending error away first, and ``backward`` raises it.
Found on torch 2.11 (``PythonDeviceGuard::exchangeStream``).

Python 3.12 collects garbage where the next function begins, which would be the guard's; and what others have in
``gc.callbacks``, as IPython's kernel has, loses the error that is pending. So there is no collection in a backward pass.

PyTorch does not check a gradient's device where the input is of a tensor subclass, as the device's tensors are (engine.cpp,
``validate_outputs``): a gradient that a program's own ``autograd.Function`` forgot on the CPU is refused here.
"""

from __future__ import annotations

import ctypes
import functools

import torch
from torch.utils import backend_registration

from ...garbage import no_collection
from ..process.eager import eager
from ..process.state import DEVICE
from . import backward_streams

RUN = None  # the code of PyTorch's that calls the engine, once installed

_taken: list[BaseException] = []
# Any call through ctypes.pythonapi raises the error that is pending in this thread.
_raise_pending = ctypes.pythonapi.PyErr_Occurred
_raise_pending.restype = ctypes.c_void_p


class DeviceGuard(backend_registration._DummyDeviceGuard):
    """The device guard that PyTorch asks for is registered with this one's answers."""

    @eager
    def type_(self):
        try:
            _raise_pending()
        except BaseException as error:
            _taken.append(error)
        return torch._C._autograd.DeviceType.PrivateUse1


@eager
def _checked(self, *grads):
    """What a program's backward function returns. Raises RuntimeError where it is on the CPU and its input is not."""
    found = _apply(self, *grads)
    for place, each in enumerate(found if isinstance(found, tuple) else (found,)):
        if type(each) is torch.Tensor and each.dim() and each.device.type == "cpu" and _wanted_at(self, place) == DEVICE:
            raise RuntimeError(f"Function {type(self).__name__} returned an invalid gradient at index {place} - expected "
                               f"device {DEVICE} but got cpu: make it with device=grad.device")
    return found


def _wanted_at(function, place: int) -> torch.device | None:
    """The device of the input at ``place``; None where it is no tensor, or wants no gradient."""
    wants = function.needs_input_grad
    edges = [edge for edge in function.next_functions if edge[0] is not None]  # of inputs that want a gradient, in order
    if not wants[place] or len(edges) != sum(wants):
        return None
    node, number = edges[sum(wants[:place])]
    return node._input_metadata[number].device


_apply = torch.autograd.function.BackwardCFunction.apply


def install() -> None:
    """Make ``backward`` and ``torch.autograd.grad`` raise what the guard took, and look at gradients' devices."""
    torch.autograd.function.BackwardCFunction.apply = _checked
    run_backward = torch.autograd.graph._engine_run_backward

    @functools.wraps(run_backward)
    @eager
    def run(outputs, grads, *args, **kwargs):
        for place, pair in enumerate(zip(outputs, grads)):
            if all(isinstance(each, torch.Tensor) for each in pair) and pair[1].dim():
                wanted, found = (each.device for each in pair)
                if wanted != found and DEVICE in (wanted, found):
                    raise RuntimeError(f"invalid gradient at index {place} - expected device {wanted} but got {found}")
        try:
            # In the caller's thread: the engine makes its device threads at the first backward pass of the process
            # and would have none for a device that was registered after it.
            with no_collection(), torch.autograd.set_multithreading_enabled(False), backward_streams.backward_pass():
                return run_backward(outputs, grads, *args, **kwargs)
        except SystemError:
            if not _taken:
                raise
            error = _taken.pop()
            _taken.clear()
            try:
                raise error from None
            finally:
                del error  # its traceback has this frame: the two would hold each other, and all tensors of the step

    global RUN
    RUN = run_backward.__code__
    torch.autograd.graph._engine_run_backward = run
    torch.autograd._engine_run_backward = run
