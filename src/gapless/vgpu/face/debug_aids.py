"""Debug aids of PyTorch's, and what they cost on the virtual clock: profilers, NVTX ranges, anomaly detection, launches that
wait. The figures: :mod:`..hardware.clock.debug_aids`.

What each leaves in a trace: a profiler, the two waits around it and longer operators; ``emit_nvtx``, a block around each
operator; anomaly detection, ``format_stack`` for each node of the forward pass and a read-back for each gradient
(torch/csrc/autograd/engine.cpp, ``isnan(output)._is_any_true().item``), which are operators as any; launches that wait,
calls of ``cudaLaunchKernel`` that last until the kernel is done.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
from types import CodeType, FrameType

import torch
import torch.fx.traceback
from torch.autograd import profiler

from ..core.dispatch import of_the_device
from ..hardware.clock.debug_aids import STACK_NS
from ..process.state import state

VARIABLE = "GAPLESS_LAUNCH_BLOCKING"


class launch_blocking:
    """From now on each launch waits until its kernel is done, or (``False``) none does; as a context manager, inside only.
    On CUDA it is the environment's CUDA_LAUNCH_BLOCKING=1, read at the start; here GAPLESS_LAUNCH_BLOCKING=1 is too."""

    def __init__(self, mode: bool = True):
        self._before = state.aids.blocking
        state.aids.switch(blocking=bool(mode))

    def __enter__(self) -> None:
        """Nothing more: it is switched."""

    def __exit__(self, *error) -> None:
        state.aids.switch(blocking=self._before)


def is_launch_blocking() -> bool:
    """Whether each launch waits until its kernel is done."""
    return state.aids.blocking


def _telling(original, profiled: bool):
    """What PyTorch calls where a profiler starts or stops."""

    @functools.wraps(original)
    def call():
        state.aids.switch(profiled=profiled)
        return original()

    return call


def _enter_ranges(self):
    # torch.autograd.profiler.emit_nvtx.__enter__, without CUDA
    if not self.enabled:
        return None
    if self.entered:
        raise RuntimeError("NVTX annotation context manager is not reentrant")
    self.entered = True
    torch.accelerator.synchronize()
    state.aids.switch(ranges=True)
    return self


def _exit_ranges(self, kind, error, trace):
    if self.enabled:
        torch.accelerator.synchronize()
        state.aids.switch(ranges=False)
        self.entered = False
        return False
    return None


def _writing_down(original):
    """``torch.fx.traceback.format_stack``, by which anomaly detection keeps the stack of each node
    (torch/csrc/autograd/python_anomaly_mode.cpp)."""

    @functools.wraps(original)
    def format_stack(*args, **kwargs):
        if not torch.is_anomaly_enabled() or torch.fx.traceback.should_preserve_node_meta:
            return original(*args, **kwargs)
        if state.counting is not None:
            _wrote_down()
        return _stack_lines(sys._getframe(1))

    return format_stack


@of_the_device
def _wrote_down() -> None:
    own_call_ns = state.card.host.python_call_ns
    state.timeline.python_work("torch/fx/traceback.py: format_stack", STACK_NS + own_call_ns)


_written: dict[tuple[CodeType, int], str] = {}


def _stack_lines(frame: FrameType | None) -> list[str]:
    """What ``traceback.format_stack`` gives, with each place of a program formatted once: a step of a training program asks
    for the same places thousands of times."""
    lines = []
    while frame is not None:
        place = frame.f_code, frame.f_lasti
        if place not in _written:
            _written[place], = traceback.StackSummary.extract([(frame, frame.f_lineno)]).format()
        lines.append(_written[place])
        frame = frame.f_back
    return lines[::-1]


def install() -> None:
    """Let the clock know of them."""
    if os.environ.get(VARIABLE, "0") not in ("", "0"):
        state.aids.switch(blocking=True)
    for name, profiled in (("_run_on_profiler_start", True), ("_run_on_profiler_stop", False)):
        setattr(profiler, name, _telling(getattr(profiler, name), profiled))
    if not torch.cuda.is_available():
        profiler.emit_nvtx.__enter__, profiler.emit_nvtx.__exit__ = _enter_ranges, _exit_ranges
    torch.fx.traceback.format_stack = _writing_down(torch.fx.traceback.format_stack)
