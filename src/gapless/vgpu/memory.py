"""The card's memory: bytes now, the peak, and running out. Knows nothing of PyTorch.

Sizes are rounded up to 512 bytes as PyTorch's caching allocator rounds them. Not modelled:
fragmentation, the cache itself, the CUDA context.
"""

from __future__ import annotations

GRANULE_BYTES = 512


class OutOfMemory(MemoryError):
    """An allocation would exceed the card's memory."""


class Memory:
    """Counts allocations of one card with ``capacity_bytes``."""

    def __init__(self, capacity_bytes: int):
        self.capacity_bytes = capacity_bytes
        self.allocated_bytes = 0
        self.peak_bytes = 0
        self.on_change = None  # called with the change in bytes, while a profile records

    def allocate(self, nbytes: int) -> Allocation:
        """Take ``nbytes``; they are given back when the returned object dies. Raises OutOfMemory."""
        return Allocation(self, nbytes)

    def reserve_briefly(self, nbytes: int) -> None:
        """Let the peak see a workspace that a kernel takes and gives back. Raises OutOfMemory."""
        Allocation(self, nbytes)

    def _change(self, nbytes: int) -> None:
        self.allocated_bytes += nbytes
        if self.allocated_bytes > self.peak_bytes:
            self.peak_bytes = self.allocated_bytes
        if self.on_change is not None:
            self.on_change(nbytes)


class Allocation:
    """A block of a card's memory, freed with the object."""

    __slots__ = ("memory", "nbytes", "__weakref__")

    def __init__(self, memory: Memory, nbytes: int):
        self.nbytes = 0
        self.memory = memory
        rounded = -(-nbytes // GRANULE_BYTES) * GRANULE_BYTES
        if memory.allocated_bytes + rounded > memory.capacity_bytes:
            free = memory.capacity_bytes - memory.allocated_bytes
            raise OutOfMemory(
                f"virtual GPU out of memory. Tried to allocate {_binary(rounded)}. The card has a total capacity of "
                f"{_binary(memory.capacity_bytes)} of which {_binary(free)} is free."
            )
        self.nbytes = rounded
        memory._change(rounded)

    def __del__(self):
        # An object made without __init__ (torch.compile probes classes so) has no attributes.
        if getattr(self, "nbytes", 0):
            self.memory._change(-self.nbytes)


def _binary(nbytes: int) -> str:
    return f"{nbytes / 2**30:.2f} GiB" if nbytes >= 2**30 else f"{nbytes / 2**20:.2f} MiB"
