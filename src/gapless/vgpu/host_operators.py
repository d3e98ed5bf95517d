"""Operators on CPU tensors, and the clock of the host that runs them.

An operator takes the larger of its bytes over the memory's rate and its FLOPs over the cores', after the dispatcher's part.
As many cores work as PyTorch gives it threads: one for each :data:`GRAIN` elements, at most the host's.
"""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .dispatch import Operator, cost_ns, dispatch
from .eager import eager
from .hardware import costs
from .hardware.specs import Host
from .state import state
from .tensor import DEVICE, VirtualTensor

GRAIN = 32_768  # at::internal::GRAIN_SIZE (ATen/Parallel.h): elements for which another thread is worth while


def operator_ns(name: str, args, kwargs, out, host: Host) -> int:
    """Nanoseconds of one call of the operator ``name`` (without ``aten::``) on CPU tensors, without the dispatcher's part."""
    given = costs.tensors(args, kwargs)
    results = costs.tensors(out)
    elements = max((tensor.numel() for tensor in (*given, *results)), default=0)
    if not elements:
        return 0
    cores = min(host.cores, -(-elements // GRAIN))
    moved = sum(costs.nbytes(tensor) for tensor in given) + sum(costs.nbytes(tensor) for tensor in results)
    seconds = moved / min(cores * host.core_bytes_per_s, host.memory_bytes_per_s)
    if name in costs.RULES:
        flops = sum(kernel.flops for kernel in costs.kernels(name, args, kwargs, out))
        seconds = max(seconds, flops / (cores * host.core_flops))
    return round(seconds * 1e9)


class HostOperators(TorchDispatchMode):
    """While it is entered, each operator on CPU tensors is added to ``owed_ns``. Those of the device go where they would go
    without it."""

    def __init__(self):
        super().__init__()
        self.owed_ns = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # what PyTorch would put around the method imports the compiler; `eager` does without

    @eager
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if VirtualTensor in types:
            return dispatch(func, args, kwargs)
        device = kwargs.get("device")
        if device is not None and device.type != "cpu":
            return dispatch(func, args, kwargs) if device.type == DEVICE.type else func(*args, **kwargs)
        out = func(*args, **kwargs)
        operator, host = Operator.known.get(func) or _known(func), state.card.host
        self.owed_ns += cost_ns(operator, host)
        if not operator.is_view and not operator.is_empty:
            self.owed_ns += operator_ns(operator.name, args, kwargs, out, host)
        return out


def _known(func) -> Operator:
    return Operator.known.setdefault(func, Operator(func))
