"""``no_syncs()``: raise at the first wait, with its operator and line, on ``cuda`` and on ``vgpu``.

    with gapless.no_syncs():
        step()

    @gapless.no_syncs()
    def step(): ...
"""

from __future__ import annotations

import functools
import warnings
from contextlib import ContextDecorator, ExitStack
from typing import Literal

import torch

from .. import vgpu
from ..vgpu.process.location import display_name, is_user_file, location, readable


class SyncError(RuntimeError):
    """The host waited for the device. ``op``: the operator or call; ``location``: the line of the program."""

    def __init__(self, op: str, location: str | None):
        self.op, self.location = op, location
        place = readable(location) if location else "an unknown line"
        super().__init__(f"{op} made the host wait for the device, at {place}")


class no_syncs(ContextDecorator):  # a context manager and decorator, called like a function
    """Raise SyncError at the first wait inside. May be nested, and used by several tests of one process.

    On ``vgpu`` every modelled wait counts. On ``cuda`` it is PyTorch's own check
    (``torch.cuda.set_sync_debug_mode``), and in addition what that misses: ``synchronize()`` of device, stream and
    event, and non-blocking copies from pageable memory. The check is global to the process.
    """

    def _recreate_cm(self):
        return type(self)()

    def __enter__(self) -> no_syncs:
        self._stack = ExitStack()
        hooks = vgpu.timeline().wait_hooks
        hooks.append(_raise)
        self._stack.callback(hooks.remove, _raise)
        if torch.cuda.is_available():
            self._enter_cuda()
        return self

    def __exit__(self, kind, error, trace) -> Literal[False]:
        self._stack.close()
        if kind is RuntimeError and "synchronizing CUDA operation" in str(error):
            raise SyncError("a CUDA operator", _line_of(trace)) from error
        return False

    def _enter_cuda(self) -> None:
        before = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch calls the mode a prototype
            torch.cuda.set_sync_debug_mode("error")
        self._stack.callback(torch.cuda.set_sync_debug_mode, before)
        for owner in (torch.cuda, torch.cuda.Stream, torch.cuda.Event):
            original = owner.synchronize
            owner.synchronize = _refused(original, f"{owner.__name__}.synchronize")  # type: ignore[union-attr]
            self._stack.callback(setattr, owner, "synchronize", original)
        self._stack.enter_context(_PageableCopies())


def _raise(wait: vgpu.Wait) -> None:
    raise SyncError(wait.op or wait.name, wait.location)


def _refused(original, name: str):
    @functools.wraps(original)
    def refuse(*args, **kwargs):
        raise SyncError(name, location())

    return refuse


def _line_of(trace) -> str | None:
    """The user's innermost line of a traceback."""
    found = None
    while trace is not None:
        code = trace.tb_frame.f_code
        if is_user_file(code.co_filename):
            found = f"{display_name(code.co_filename)}({trace.tb_lineno}): {code.co_name}"
        trace = trace.tb_next
    return found


class _PageableCopies(torch.overrides.TorchFunctionMode):
    """Refuses non-blocking copies from pageable memory to a CUDA device: the driver stages them, and waits."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if kwargs.get("non_blocking") and isinstance(result, torch.Tensor) and result.is_cuda:
            source = args[1] if func is torch.Tensor.copy_ and len(args) > 1 else args[0]
            if isinstance(source, torch.Tensor) and source.device.type == "cpu" and not source.is_pinned():
                raise SyncError("a non-blocking copy from pageable memory", location())
        return result
