"""The card's memory: bytes now, the peak, and running out. Knows nothing of PyTorch.

Sizes are rounded up to 512 bytes as PyTorch's caching allocator rounds them (``kMinBlockSize`` in
c10/core/AllocatorConfig.h). Not modelled: fragmentation, the cache itself and what it hands out beyond the rounded size
(up to 1 MiB for a block of more than that), workspaces of cuBLAS and cuDNN, the CUDA context.
"""

from __future__ import annotations

import weakref

GRANULE_BYTES = 512
MOST_FREED = 64  # blocks given back in use by other streams that are remembered

# Key → the block of any card that holds what the caller knows by it, until the block dies. (A WeakValueDictionary takes
# two more objects for each, which Python's garbage collector would look through.)
_blocks: dict[int, weakref.ref[Allocation]] = {}


def block(key: int) -> Allocation | None:
    """The living block with this ``key``."""
    reference = _blocks.get(key)
    return None if reference is None else reference()


class OutOfMemory(MemoryError):
    """An allocation would exceed the card's memory."""


class Memory:
    """Counts allocations of one card with ``capacity_bytes``."""

    # Of all cards, so that no two blocks share one. Nobody reads there.
    _next_address = 0x7000_0000_0000

    def __init__(self, capacity_bytes: int):
        self.capacity_bytes = capacity_bytes
        self.allocated_bytes = 0
        self.peak_bytes = 0
        # Blocks given back that other streams than their own have used: (stream, bytes, those uses).
        self.freed: list[tuple[int, int, list]] = []
        self.on_change = None  # called with the change in bytes and the block's address, while a profile records

    def allocate(self, nbytes: int, key: int | None = None) -> Allocation:
        """Take ``nbytes``; they are given back when the returned object dies. :func:`block` finds it by its ``key``. Raises
        OutOfMemory."""
        taken = Allocation(self, nbytes)
        if key is not None:
            taken.key = key
            _blocks[key] = weakref.ref(taken)
        return taken

    def reserve_briefly(self, nbytes: int) -> None:
        """Let the peak see a workspace that a kernel takes and gives back. Raises OutOfMemory."""
        most = self.allocated_bytes + -(-nbytes // GRANULE_BYTES) * GRANULE_BYTES
        if self.on_change is not None or most > self.capacity_bytes:
            Allocation(self, nbytes)
        elif most > self.peak_bytes:
            self.peak_bytes = most


class Allocation:
    """A block of a card's memory, freed with the object. ``address``: a number that no other block of any bytes has, 0 for
    one of none.

    ``key``: what :func:`block` finds it by, None where nobody looks for it; ``stream``: whose it is; ``made``, ``made_on``:
    the launch that wrote it last before somebody kept ``uses``, None where it holds nothing yet, and the number of its
    stream; ``uses``: by bytes, stream and kind; ``kept_for``: streams that are waited for before it is used anew
    (``record_stream``)."""

    __slots__ = ("memory", "nbytes", "address", "stream", "made", "made_on", "uses", "kept_for", "key", "__weakref__")

    def __init__(self, memory: Memory, nbytes: int):
        self.nbytes = 0
        self.key = self.stream = self.made = self.made_on = self.uses = None
        self.kept_for = ()
        self.memory = memory
        rounded = -(-nbytes // GRANULE_BYTES) * GRANULE_BYTES
        if memory.allocated_bytes + rounded > memory.capacity_bytes:
            free = memory.capacity_bytes - memory.allocated_bytes
            # The words of PyTorch's own message (c10/cuda/CUDACachingAllocator.cpp): programs look for its first four.
            raise OutOfMemory(
                f"CUDA out of memory. Tried to allocate {_binary(nbytes)}. GPU 0 (simulated) has a total capacity of "
                f"{_binary(memory.capacity_bytes)} of which {_binary(free)} is free. Of the allocated memory "
                f"{_binary(memory.allocated_bytes)} is allocated by PyTorch."
            )
        self.nbytes = rounded
        self.address = Memory._next_address if rounded else 0
        Memory._next_address += rounded
        memory.allocated_bytes += rounded
        if memory.allocated_bytes > memory.peak_bytes:
            memory.peak_bytes = memory.allocated_bytes
        if memory.on_change is not None:
            memory.on_change(rounded, self.address)

    def resize(self, nbytes: int) -> None:
        """Another block of ``nbytes`` in place of this one. Both are there for a moment, as what the old one holds is copied
        (ATen, cuda/Resize.cpp, ``resize_bytes_cuda``). Raises OutOfMemory, and keeps the old one."""
        old = Allocation(self.memory, nbytes)  # until the two change places
        old.stream, old.made, old.made_on = self.stream, self.made, self.made_on
        for name in ("nbytes", "address", "uses", "kept_for"):
            mine = getattr(self, name)
            setattr(self, name, getattr(old, name))
            setattr(old, name, mine)

    def __del__(self):
        # In as few calls as can be: while a profile counts Python's calls, this runs among the program's.
        try:
            key, nbytes = self.key, self.nbytes
        except AttributeError:
            return  # made without __init__: torch.compile probes classes so
        if key is not None and key in _blocks:
            known = _blocks[key]()
            if known is None or known is self:  # None where it was part of a cycle: references die first
                del _blocks[key]
        if nbytes:
            memory = self.memory
            if self.uses:
                others = [use for use in self.uses.values() if use.stream not in (self.stream, *self.kept_for)]
                if others:
                    memory.freed.append((self.stream, nbytes, others))
                    del memory.freed[:-MOST_FREED]
            memory.allocated_bytes -= nbytes
            if memory.on_change is not None:
                memory.on_change(-nbytes, self.address)


def _binary(nbytes: int) -> str:
    """As PyTorch writes sizes (``format_size`` in c10/cuda/CUDACachingAllocator.cpp)."""
    if nbytes <= 2**10:
        return f"{nbytes} bytes"
    for unit, size in (("KiB", 2**10), ("MiB", 2**20)):
        if nbytes <= size * 2**10:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes / 2**30:.2f} GiB"
