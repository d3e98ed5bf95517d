"""How much of a device's memory calls take at most."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from .. import vgpu


class PeakMeter:
    """The most bytes that the device's memory holds in the calls that are metered, above the least with which one of them
    began: ``peak_bytes``. What a call leaves behind counts in those after it.

    On the virtual GPU nothing that a program asks of ``reset_peak_memory_stats`` changes it; on a real one its last peak
    counts.
    """

    def __init__(self, device: torch.device):
        self._device = device
        self._least: int | None = None
        self._most = 0

    @property
    def peak_bytes(self) -> int:
        return self._most - (self._least or 0)

    @contextmanager
    def call(self) -> Iterator[None]:
        """Inside, the device's memory is watched."""
        watch = {"vgpu": _on_virtual, "cuda": _on_cuda}.get(self._device.type)
        if watch is None:
            yield
            return
        seen: list[int] = []
        try:
            with watch(self._device, seen):
                yield
        finally:
            began, most = seen
            self._least = began if self._least is None else min(self._least, began)
            self._most = max(self._most, most)


@contextmanager
def least_held(device: torch.device) -> Iterator[Callable[[], int]]:
    """Yields a function that tells the least bytes that the device's memory has held since. Only the virtual GPU knows: on a
    real one it is the less of what was held at first and is now."""
    least = held_and_peak(device)[0]
    memory = vgpu.memory() if device.type == "vgpu" else None

    def look(*change) -> None:
        nonlocal least
        least = min(least, held_and_peak(device)[0])

    def found() -> int:
        look()
        return least

    if memory is not None:
        memory.listeners += (look,)
    try:
        yield found
    finally:
        if memory is not None:
            memory.listeners = tuple(each for each in memory.listeners if each is not look)


def held_and_peak(device: torch.device) -> tuple[int, int]:
    """Bytes that the device's memory holds now, and held at most since the call began that is metered."""
    if device.type == "vgpu":
        memory = vgpu.memory()
        return memory.allocated_bytes, max(memory.earlier_peak_bytes, memory.peak_bytes)
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device), torch.cuda.max_memory_allocated(device)
    return 0, 0


def requested_bytes(device: torch.device) -> int:
    """What the tensors that the device's memory holds have asked for, without what the allocator rounds up and does not cut
    off (up to 1 MiB a block, which depends on what was there before)."""
    return torch.get_device_module(device).memory_stats()["requested_bytes.all.current"]


def forget_peak(device: torch.device) -> None:
    """What a metered call has held so far at most does not count: for what is done for us in a learner's place."""
    if device.type == "vgpu":
        memory = vgpu.memory()
        memory.earlier_peak_bytes, memory.peak_bytes = 0, memory.allocated_bytes
    elif device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


@contextmanager
def _on_virtual(device: torch.device, seen: list[int]) -> Iterator[None]:
    memory = vgpu.memory()
    before = memory.earlier_peak_bytes, memory.peak_bytes
    seen.append(memory.allocated_bytes)
    memory.earlier_peak_bytes, memory.peak_bytes = 0, memory.allocated_bytes
    try:
        yield
    finally:
        seen.append(max(memory.earlier_peak_bytes, memory.peak_bytes))
        if not memory.earlier_peak_bytes:  # else the program has begun a peak of its own
            memory.peak_bytes = max(before[1], memory.peak_bytes)
        memory.earlier_peak_bytes = max(before[0], memory.earlier_peak_bytes)


@contextmanager
def _on_cuda(device: torch.device, seen: list[int]) -> Iterator[None]:
    torch.cuda.reset_peak_memory_stats(device)
    seen.append(torch.cuda.memory_allocated(device))
    try:
        yield
    finally:
        seen.append(torch.cuda.max_memory_allocated(device))
