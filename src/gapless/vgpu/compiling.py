"""``torch.compile`` on the virtual GPU: what touches the device runs as it is written.

No compiler has code for the device. So Dynamo leaves a function alone as soon as it meets a tensor there: one that comes in,
and one that the function makes (``torch.arange(n, device=x.device)``), which is a stand-in while Dynamo traces. With
``fullgraph=True`` that is an error that says so. Functions that use CPU tensors only are compiled as ever.
"""

from __future__ import annotations

import functools

import torch
from torch._guards import TracingContext

from .libraries.imports import after_import
from .tensor import NAME, VirtualTensor

WHY = (f"no compiler makes code for {NAME}: what uses it runs as it is written, with the same values and times as "
       "uncompiled. fullgraph=True, and torch.export with strict=True, ask for more: leave them out, or compile on the CPU")


def check() -> None:
    """Refuse, if Dynamo traces. torch.export without it makes no code: it may."""
    if TracingContext.try_get() is not None and not torch.compiler.is_exporting():
        refuse()


def refuse() -> None:
    """Raise Dynamo's Unsupported, upon which it runs the function around as it is written."""
    from torch._dynamo.exc import Unsupported  # it is there: somebody traces

    refusal = Unsupported(WHY)
    refusal.skip_frame = True
    # Without it cond, scan and their kin make an error of the refusal (higher_order_ops.py, add_hop_context).
    refusal._hop_name = f"none has code for {NAME}"
    raise refusal


def _refusing(original):
    """``FakeTensor.__new__``, which makes the stand-ins that tracing computes with."""

    @functools.wraps(original)
    def __new__(cls, *args, **kwargs):
        made = original(cls, *args, **kwargs)
        if made.fake_device.type == NAME:
            check()
        return made

    return __new__


def _fake_tensor(module) -> None:
    module.FakeTensor.__new__ = staticmethod(_refusing(module.FakeTensor.__new__))


def _builder(module) -> None:
    """Dynamo's view of a value that comes in."""
    original = module.VariableBuilder._wrap

    @functools.wraps(original)
    def _wrap(self, value):
        if isinstance(value, VirtualTensor):
            refuse()
        return original(self, value)

    module.VariableBuilder._wrap = _wrap


def install() -> None:
    """Have tracing refuse tensors of the device."""
    after_import("torch._dynamo.variables.builder", _builder)
    after_import("torch._subclasses.fake_tensor", _fake_tensor)
