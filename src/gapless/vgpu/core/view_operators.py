"""Views the short way: they are half of what many programs call, launch nothing, and lie in their base's memory."""

from __future__ import annotations

import torch

from ..process.state import state
from .tensor import VirtualTensor, lying_in

is_inference_mode_enabled = torch.is_inference_mode_enabled
_NUMBERS = frozenset({bool, int, float, type(None), torch.dtype})


def is_plain(operator) -> bool:
    """Whether a call of ``operator`` may go the short way: it gives views of its first argument, and does nothing else."""
    arguments = operator.func._schema.arguments
    return (operator.is_view and not operator.mutates and operator.handler is None and bool(arguments)
            and str(arguments[0].type) == "Tensor" and not operator.name.startswith("_nested"))


def run(operator, args: tuple, kwargs: dict):
    """One call of a plain view. NotImplemented, with nothing done, where the long way has more to do: another process has
    the device, somebody watches uses of memory, autograd is off for good (a view is then as its base is), a tensor stands
    where a number should, or PyTorch refuses the call."""
    base, timeline = args[0], state.timeline
    if (type(base) is not VirtualTensor or kwargs or state.link is not None or state.forked or state.unused
            or state.regions is not None or timeline.concurrent or state.keeps_lines or is_inference_mode_enabled()
            or base.is_inference()):
        return NotImplemented
    for value in args[1:]:
        if type(value) is list:
            for each in value:
                if type(each) is not int:
                    return NotImplemented
        elif type(value) not in _NUMBERS:
            return NotImplemented
    inner = base.within
    if state.shape_only is not None and (inner.dtype is torch.bool or torch.bool in args[1:]):
        return NotImplemented  # a mask has a density
    recording = timeline.recording
    if recording is not None and recording.shapes:
        return NotImplemented
    try:
        out = operator.call(inner, *args[1:])
    except (RuntimeError, IndexError, NotImplementedError, TypeError, ValueError):
        return NotImplemented
    if recording is None and timeline.counted is None:
        timeline.host_work(timeline.host.view_ns + timeline.aids.op_ns)
    else:
        timeline.begin_op(operator.full_name, timeline.host.view_ns)
        timeline.end_op()
    if type(out) is list or type(out) is tuple:
        return type(out)([_of(base, each) for each in out])
    return _of(base, out)


def _of(base: VirtualTensor, inner: torch.Tensor) -> VirtualTensor:
    return base if inner is base.within else lying_in(base.allocation, inner)
