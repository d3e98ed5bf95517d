"""How much of a device's memory calls take at most."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from .. import vgpu


class PeakMeter:
    """The most bytes that the device's memory holds in the calls that are metered, above the least that was there before one
    of them and outlived it: ``peak_bytes``. What a call leaves behind counts in those after it, and so does what it frees of
    before: memory that was set aside to be freed in time saves nothing.

    On the virtual GPU nothing that a program asks of ``reset_peak_memory_stats`` changes it; on a real one its last peak
    counts, above the least with which a call began. ``aside_bytes``: what was taken for calls to come; ``gone_bytes``: what
    of it is there no more, as its calls are over.
    """

    def __init__(self, device: torch.device):
        self._device = device
        self._least: int | None = None
        self._most = 0
        self.aside_bytes = self.gone_bytes = 0

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
            if seen:
                outlived, most = (nbytes - self.aside_bytes + self.gone_bytes for nbytes in seen)
                self._least = outlived if self._least is None else min(self._least, outlived)
                self._most = max(self._most, most)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What is taken inside, for calls to come, counts in none of them."""
        before = held(self._device)
        yield
        self.aside_bytes += held(self._device) - before


class _Before:
    """A listener of the virtual GPU's memory: ``freed_bytes``, how much of what was there before it began is there no
    more."""

    def __init__(self):
        self.freed_bytes = 0
        self._since: set[int] = set()

    def __call__(self, change: int, address: int) -> None:
        if change > 0:
            self._since.add(address)
        elif address in self._since:
            self._since.remove(address)
        else:
            self.freed_bytes -= change


@contextmanager
def least_held(device: torch.device) -> Iterator[Callable[[], int]]:
    """Yields a function that tells the least bytes that the device's memory has held since, without what was there before
    and has been freed. Only the virtual GPU knows: on a real one it is the less of what was held at first and is now."""
    began = least = held(device)
    memory, before = vgpu.memory() if device.type == "vgpu" else None, _Before()

    def look(*change) -> None:
        nonlocal least
        least = min(least, held(device))

    def found() -> int:
        look()
        return min(least, began - before.freed_bytes)

    if memory is not None:
        memory.listeners += (look, before)
    try:
        yield found
    finally:
        if memory is not None:
            memory.listeners = tuple(each for each in memory.listeners if each not in (look, before))


def held(device: torch.device) -> int:
    """Bytes that the device's memory holds now; 0 on the CPU."""
    return {"vgpu": lambda: vgpu.memory().allocated_bytes,
            "cuda": lambda: torch.cuda.memory_allocated(device)}.get(device.type, lambda: 0)()


def held_and_peak(device: torch.device) -> tuple[int, int]:
    """Bytes that the device's memory holds now, and held at most since the call began that is metered. What was there before
    that call and has been freed since counts as held, on the virtual GPU: a leak cannot hide behind it."""
    if device.type == "vgpu":
        memory = vgpu.memory()
        freed = max((each.freed_bytes for each in memory.listeners if isinstance(each, _Before)), default=0)
        return memory.allocated_bytes + freed, max(memory.earlier_peak_bytes, memory.peak_bytes)
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
    memory, before = vgpu.memory(), _Before()
    began, peaks = memory.allocated_bytes, (memory.earlier_peak_bytes, memory.peak_bytes)
    memory.earlier_peak_bytes, memory.peak_bytes = 0, began
    memory.listeners += (before,)
    try:
        yield
    finally:
        memory.listeners = tuple(each for each in memory.listeners if each is not before)
        seen += [began - before.freed_bytes, max(memory.earlier_peak_bytes, memory.peak_bytes)]
        if not memory.earlier_peak_bytes:  # else the program has begun a peak of its own
            memory.peak_bytes = max(peaks[1], memory.peak_bytes)
        memory.earlier_peak_bytes = max(peaks[0], memory.earlier_peak_bytes)


@contextmanager
def _on_cuda(device: torch.device, seen: list[int]) -> Iterator[None]:
    torch.cuda.init()  # the statistics alone do not start CUDA, and are refused before
    torch.cuda.reset_peak_memory_stats(device)
    seen.append(torch.cuda.memory_allocated(device))
    try:
        yield
    finally:
        seen.append(torch.cuda.max_memory_allocated(device))
