"""Lets PyTorch's tracer record operators on the device's tensors.

``make_fx``, and ``torch.func.linearize`` on top of it, leave an operator alone that has a tensor of an unknown class among
its arguments: such a class is expected to take the call apart into others (``proxy_tensor.py``, ``can_handle_tensor``).
What is left alone runs once, while tracing, and its result is a constant ever after.
"""

from __future__ import annotations

from torch.fx.experimental import proxy_tensor

from ..core.tensor import VirtualTensor


def install() -> None:
    """Name the device's tensors among the classes whose operators are recorded."""
    proxy_tensor.HANDLED_TYPES += (VirtualTensor,)
