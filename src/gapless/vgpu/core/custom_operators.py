"""Operators that a program makes with ``torch.library.custom_op``: their own Python runs, on tensors of this device."""

from __future__ import annotations

from torch._library.custom_ops import _maybe_get_opdef

from ..process.state import DEVICE


def is_custom(func) -> bool:
    """Whether ``func``, an OpOverload, was made so."""
    return _maybe_get_opdef(func) is not None


def run(func, args, kwargs):
    """Raises NotImplementedError where it is for other devices only. What is for CUDA is for this one."""
    kernels = _maybe_get_opdef(func)._backend_fns  # again each time: a cell that is run again replaces them
    kernel = next((kernels[kind] for kind in (DEVICE.type, "cuda", None) if kind in kernels), None)
    if kernel is None:
        raise NotImplementedError(f"{func.name()} is implemented for {', '.join(map(str, kernels))}, and neither for "
                                  f"{DEVICE.type} nor for cuda")
    return kernel(*args, **kwargs)
