"""``torch.accelerator`` on the virtual GPU.

Its Python functions call C++ functions that ask the device's C++ allocator and guard, which a backend in Python
cannot fill. Those C++ functions are replaced by the ones here; ``torch.accelerator`` stays as it is.
"""

# mypy: disable-error-code="func-returns-value"
# A function that returns nothing is called in an expression, for what comes after it.
from __future__ import annotations

import torch

from ..core.dispatch import check_device
from ..ordering import streams
from ..process.state import DEVICE, NAME, state

# What a wrapper's values can be: every dtype that the CPU computes with.
_DTYPES = ("float32 float64 float16 bfloat16 complex64 complex128 int8 int16 int32 int64 uint8 bool").split()


def _check(index: int) -> None:
    if index >= 0:
        check_device(torch.device(NAME, index))


def synchronize(index: int) -> None:
    """The host waits for the device."""
    _check(index)
    state.timeline.synchronize_device()


def stats(index: int) -> dict:
    """What PyTorch's allocators count, nested by its names."""
    _check(index)
    return state.memory.stats()


def reset_peak(index: int) -> None:
    """Begin a new peak."""
    _check(index)
    state.memory.reset_peak()


def memory_info(index: int) -> tuple[int, int]:
    """Bytes free and in all."""
    _check(index)
    return state.memory.free_bytes, state.memory.capacity_bytes


def exchange_device(index: int) -> int:
    """Choose the one device; the one before was the same."""
    _check(index)
    return DEVICE.index


REPLACEMENTS = {
    "_accelerator_synchronizeDevice": synchronize,
    "_accelerator_getStream": lambda index: (_check(index), streams.current_stream())[1],
    "_accelerator_setStream": lambda stream: streams.set_stream(stream),
    "_accelerator_isAllocatorInitialized": lambda: True,
    "_accelerator_getDeviceStats": stats,
    "_accelerator_resetPeakStats": reset_peak,
    "_accelerator_resetAccumulatedStats": lambda index: (_check(index), state.memory.reset_accumulated())[0],
    "_accelerator_getMemoryInfo": memory_info,
    "_accelerator_emptyCache": lambda: state.memory.empty_cache(),
    "_accelerator_emptyHostCache": lambda: None,
    "_accelerator_setDeviceIndex": _check,
    "_accelerator_exchangeDevice": exchange_device,
    "_accelerator_maybeExchangeDevice": exchange_device,
    "_accelerator_getDeviceCapability": lambda index: {"supported_dtypes": {getattr(torch, name) for name in _DTYPES}},
    "_accelerator_getDefaultGenerator": lambda index: torch.default_generator,
}


def install() -> None:
    """Put the functions here in place of the C++ ones that this PyTorch has."""
    for name, function in REPLACEMENTS.items():
        if hasattr(torch._C, name):
            setattr(torch._C, name, function)
