"""Operators on CPU tensors, and the clock of the host that runs them.

An operator takes the larger of its bytes over the memory's rate and its FLOPs over the cores', after the dispatcher's part.
FLOPs are those of products, convolutions and attention (``torch.utils.flop_counter``); what others compute is taken to be
hidden behind their bytes. Images are decoded at a rate of pixels, on one core.
As many cores work as PyTorch gives it threads: one for each :data:`GRAIN` elements, at most the host's.
"""

from __future__ import annotations

import functools

import torch
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

from ..core.data_dependence import OF_FORM
from ..core.dispatch import Operator, aside, cost_ns, dispatch
from ..core.tensor import VirtualTensor
from ..hardware.cards.specs import Host
from ..hardware.kernels import costs
from ..process import lazy_bits
from ..process.eager import eager
from ..process.state import state

_modes_below = torch._C._len_torch_dispatch_stack  # in a mode's method: that mode is not among them
_OF_THE_DEVICE = (VirtualTensor,)

GRAIN = 32_768  # at::internal::GRAIN_SIZE (ATen/Parallel.h): elements for which another thread is worth while


# JPEG by libjpeg-turbo, one thread: torchvision decoded 712 images of ImageNet's validation set a second on an Intel Xeon
# Platinum 8581C and 621 on an AMD EPYC 9B14 (github.com/ternaus/imread_benchmark, May 2026; arXiv:2605.08731). The set's
# mean size is taken to be 0.18 million pixels, and other formats to be as fast: PNG is slower.
DECODED_PIXELS_PER_S = 666 * 0.18e6


def operator_ns(func, args, kwargs, out, host: Host) -> int:
    """Nanoseconds of one call of the operator ``func`` (an OpOverload) on CPU tensors, without the dispatcher's part."""
    if func.overloadpacket.__name__ in OF_FORM:
        return 0  # it reads none of the elements
    given, results = costs.tensors(args, kwargs), costs.tensors(out)
    if func.name().startswith("image::decode_"):
        return round(sum(tensor[..., :1, :, :].numel() for tensor in results) / DECODED_PIXELS_PER_S * 1e9)
    elements = max((tensor.numel() for tensor in (*given, *results)), default=0)
    if not elements:
        return 0
    cores = min(host.cores, -(-elements // GRAIN))
    moved = sum(costs.nbytes(tensor) for tensor in given) + sum(costs.nbytes(tensor) for tensor in results)
    seconds = moved / min(cores * host.core_bytes_per_s, host.memory_bytes_per_s)
    flops = _flops().get(func.overloadpacket)
    if flops is not None:
        seconds = max(seconds, flops(*args, **kwargs, out_val=out) / (cores * host.core_flops))
    return round(seconds * 1e9)


@functools.cache
def _flops() -> dict:
    from torch.utils.flop_counter import flop_registry  # takes a while to import

    return flop_registry


class HostOperators(TorchDispatchMode):
    """While it is entered, each operator on CPU tensors is added to ``owed_ns``. Those of the device go where they would go
    without it: to the device, or to a mode below (PyTorch puts those that trace below any other)."""

    supports_higher_order_operators = True

    def __init__(self):
        super().__init__()
        self.owed_ns = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # what PyTorch would put around the method imports the compiler; `eager` does without

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True  # the program is compiled as it would be without it

    @eager
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if types == _OF_THE_DEVICE and not _modes_below():
            return dispatch(func, args, kwargs)
        if any(issubclass(kind, VirtualTensor) for kind in types) or not _is_one(func):
            return func(*args, **kwargs)  # perhaps another class takes it
        unseen = lazy_bits.see()
        try:
            out = func(*args, **kwargs)
        finally:
            if unseen:
                lazy_bits.unsee()
        if not state.timeline.in_operator:
            aside(self._add, func, args, kwargs, out)
        return out

    def _add(self, func, args, kwargs, out) -> None:
        if not _is_on_cpu(kwargs.get("device"), out):
            return
        operator, host = _known(func), state.card.host
        self.owed_ns += host.op_ns if operator is None else cost_ns(operator, host)
        if operator is None or not (operator.is_view or operator.is_empty):
            self.owed_ns += operator_ns(func, args, kwargs, out, host)


@functools.cache
def _is_one(func) -> bool:
    """Whether ``func`` is one operator: not one of higher order, and not what PyTorch asks a tensor's class (its sizes, its
    device), where an error would end the process."""
    return not isinstance(func, HigherOrderOperator) and torch._C._dispatch_has_kernel(func.name())


def _is_on_cpu(device: torch.device | None, out) -> bool:
    if device is None:
        device = next((tensor.device for tensor in costs.tensors(out)), None)
    return device is None or device.type == "cpu"


@functools.cache
def _known(func) -> Operator | None:
    """None for what only the CPU has."""
    try:
        return Operator(func)
    except NotImplementedError:
        return None
