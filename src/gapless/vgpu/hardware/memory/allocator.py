"""PyTorch's caching allocator for CUDA: which block a request gets, and what stays reserved. Knows nothing of PyTorch.

After c10/cuda/CUDACachingAllocator.cpp. Memory comes from the driver in segments and is cut into blocks; a block that is
given back merges with its free neighbours and waits for the next request, on the stream that it was made on. A request takes
the smallest free block that is large enough, and of equals the lowest. What remains of it stays free, unless it is too
small to be cut off: then the request gets it too.

Not modelled: ``max_split_size_mb``, ``expandable_segments``, ``garbage_collection_threshold``, ``roundup_power2_divisions``
(all off by default), and the driver's own fragmentation: a segment fits as long as the card has as many bytes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

MIB = 2**20
GRANULE_BYTES = 512  # kMinBlockSize: sizes are rounded up to it, and no smaller rest of a small block is cut off
SMALL_BYTES = MIB  # kSmallSize: the largest small request, and the largest rest that is not cut off a large block
SMALL_SEGMENT_BYTES = 2 * MIB  # kSmallBuffer
LARGE_SEGMENT_BYTES = 20 * MIB  # kLargeBuffer
OWN_SEGMENT_BYTES = 10 * MIB  # kMinLargeAlloc: a request of this much gets a segment of its own size
ROUND_LARGE_BYTES = 2 * MIB  # kRoundLarge: rounded up to this

_ADDRESS_BITS = 48
_ADDRESS = (1 << _ADDRESS_BITS) - 1


def segment_bytes(size: int) -> int:
    """What is asked of the driver for a block of ``size`` bytes (``get_allocation_size``)."""
    if size <= SMALL_BYTES:
        return SMALL_SEGMENT_BYTES
    if size < OWN_SEGMENT_BYTES:
        return LARGE_SEGMENT_BYTES
    return -(-size // ROUND_LARGE_BYTES) * ROUND_LARGE_BYTES


class Pool:
    """The segments of one ``stream`` for small or for large blocks. ``segments``: address → bytes. Who takes from it counts:
    ``taken`` and ``taken_bytes``, blocks and bytes so far; ``given``, blocks given back so far; ``requested_bytes``, what
    those in use were asked to be.

    Free blocks are sorted numbers, the size above the address; ``_starts`` has their sizes by where they begin, ``_ends`` by
    where they end. Segments never touch, so that neighbours are always of one segment.
    """

    __slots__ = ("stream", "is_small", "segments", "taken", "taken_bytes", "given", "requested_bytes", "_least_rest",
                 "_free", "_starts", "_ends")

    def __init__(self, stream: int, is_small: bool):
        self.stream, self.is_small = stream, is_small
        self.segments: dict[int, int] = {}
        self.taken = self.taken_bytes = self.given = self.requested_bytes = 0
        self._least_rest = GRANULE_BYTES if is_small else SMALL_BYTES + 1  # should_split
        self._free: list[int] = []
        self._starts: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    # These two are called for every tensor: what can stay where it is in the list is written over.

    def take(self, size: int) -> tuple[int, int] | None:
        """The address and the bytes of a block of at least ``size``, None where there is none."""
        free = self._free
        place = bisect_left(free, size << _ADDRESS_BITS)
        if place == len(free):
            return None
        number = free[place]
        found, address = number >> _ADDRESS_BITS, number & _ADDRESS
        del self._starts[address]
        rest = found - size
        if rest < self._least_rest:
            del free[place], self._ends[address + found]
            return address, found
        after = address + size
        self._starts[after] = self._ends[address + found] = rest
        number = rest << _ADDRESS_BITS | after
        if place and free[place - 1] > number:
            del free[place]
            insort(free, number)
        else:
            free[place] = number
        return address, size

    def give_back(self, address: int, size: int) -> None:
        """The block is free again."""
        starts, ends, free = self._starts, self._ends, self._free
        end, place = address + size, -1
        if end in starts:
            more = starts.pop(end)
            place = bisect_left(free, more << _ADDRESS_BITS | end)
            size += more
        if address in ends:
            more = ends.pop(address)
            if place >= 0:
                del free[place]
            address -= more
            place = bisect_left(free, more << _ADDRESS_BITS | address)
            size += more
        starts[address] = ends[address + size] = size
        number = size << _ADDRESS_BITS | address
        if place < 0:
            insort(free, number)
        elif place + 1 < len(free) and free[place + 1] < number:
            del free[place]
            insort(free, number)
        else:
            free[place] = number

    def add(self, address: int, nbytes: int) -> None:
        """A new segment, all free."""
        self.segments[address] = nbytes
        self.give_back(address, nbytes)

    def release(self) -> list[int]:
        """Give up the segments that are wholly free; their bytes."""
        whole = [(address, nbytes) for address, nbytes in self.segments.items() if self._starts.get(address) == nbytes]
        for address, nbytes in whole:
            del self.segments[address], self._starts[address], self._ends[address + nbytes]
            self._free.remove(nbytes << _ADDRESS_BITS | address)
        return [nbytes for _, nbytes in whole]

    def free_blocks(self) -> list[tuple[int, int]]:
        """(address, bytes) of each free block, by address."""
        return sorted(self._starts.items())

    @property
    def free_bytes(self) -> int:
        """Of all free blocks."""
        return sum(self._starts.values())

    @property
    def largest_free_bytes(self) -> int:
        """Of the largest free block."""
        return self._free[-1] >> _ADDRESS_BITS if self._free else 0

    @property
    def split(self) -> list[int]:
        """The bytes of the free blocks that are a part of a segment (``inactive_split``): nothing gives these back to the
        driver."""
        return [nbytes for address, nbytes in self._starts.items() if self.segments.get(address) != nbytes]


@dataclass
class Count:
    """A number as PyTorch's allocator keeps it (``Stat``): now, at most since the last reset, all that came, all that
    went."""

    current: int = 0
    peak: int = 0
    allocated: int = 0
    freed: int = 0

    def add(self, amount: int) -> None:
        """``amount`` more."""
        self.current += amount
        self.allocated += amount
        self.peak = max(self.peak, self.current)

    def remove(self, amount: int) -> None:
        """``amount`` less."""
        self.current -= amount
        self.freed += amount
