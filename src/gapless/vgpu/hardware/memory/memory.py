"""The card's memory: bytes now, the peak, and running out. Knows nothing of PyTorch.

Tensors' memory goes through PyTorch's caching allocator (:mod:`.allocator`). Not modelled: workspaces of cuBLAS, the CUDA
context and what else a process takes of a card beside PyTorch.
"""

# mypy: disable-error-code="assignment, misc"
# Sums over entries of several types.
from __future__ import annotations

import gc
import weakref

from .allocator import GRANULE_BYTES, SMALL_BYTES, Count, Pool, segment_bytes

MOST_FREED = 64  # blocks given back in use by other streams that are remembered
_GAP_BYTES = 2 * 2**20  # between segments, which never touch
_LESS = GRANULE_BYTES - 1
KINDS = ("all", "small_pool", "large_pool")
# What the host's clock gets for a segment from the driver: an assumption. PyTorch's allocator is there because this, and the
# device-wide wait of cudaFree, are slow (docs/source/notes/cuda.rst, "Memory management").
CUDA_MALLOC_NS = 200_000

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
    """The allocations of one card with ``capacity_bytes``.

    ``timeline``: whose current stream a block is made on, and whose clock tells when a block that other streams use
    (``kept_for``) is free; without one all is done on one stream, at once. ``allowed_bytes``: what a program has limited
    itself to. ``listeners`` are called with each change in bytes and the block's address.

    Segments take no time at first, as what is measured comes after a warm-up. Once some have gone back to the driver, those
    taken again take :data:`CUDA_MALLOC_NS` each; giving back waits for the device. Where the clocks begin again so does
    this, and what is cached goes, so that the same program finds the same.
    """

    # Of all cards, so that no two segments share one. Nobody reads there.
    _next_address = 0x7000_0000_0000

    def __init__(self, capacity_bytes: int, timeline=None):
        self.capacity_bytes = capacity_bytes
        self.allowed_bytes: int | None = None
        self.timeline = timeline
        self.allocated_bytes = 0
        self.peak_bytes = 0
        self.earlier_peak_bytes = 0  # before programs began their peaks again
        # Blocks given back that other streams than their own have used: (stream, bytes, those uses).
        self.freed: list[tuple[int, int, list]] = []
        self.left: list | None = None  # a list: what blocks held is put there when they go, for somebody to let go of
        self.listeners: tuple = ()
        self.pools: dict[int, Pool] = {}  # by twice the stream's number, and one more for large blocks
        self._own_pools = self.pools
        self._private = None
        self.private_pools: list[PrivatePool] = []  # of each graph
        self._waiting: list[tuple[int, Pool, int, int]] = []
        # Who settles later what is taken and given back: told of each block, by ``allocated`` and ``released``.
        self.ledger = None
        # Address there → (pool, address, bytes, bytes asked for) of what is memory now.
        self.settled: dict[int, tuple[Pool, int, int, int]] = {}
        self.segments = {kind: Count() for kind in KINDS}
        self.reserved = {kind: Count() for kind in KINDS}
        self.counts = dict.fromkeys(("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc",
                                     "num_device_free"), 0)
        self._counted_before: dict = {}  # what was accumulated when that was to begin again
        self._has_released = False
        if timeline is not None:
            timeline.on_reset = self._begin

    @property
    def reserved_bytes(self) -> int:
        """Taken from the driver, in use or not."""
        return self.reserved["all"].current

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
        Allocation(self, nbytes)

    @property
    def largest_free_bytes(self) -> int:
        """What a request can count on without others giving back (``cacheInfo``): the largest free block, or all that the
        driver has left."""
        return max([self._driver_bytes, *(pool.largest_free_bytes for pool in self.pools.values())])

    @property
    def free_bytes(self) -> int:
        """What the driver has left (``cudaMemGetInfo``)."""
        return self.capacity_bytes - self.reserved_bytes

    def allow(self, nbytes: int) -> None:
        """From now on at most ``nbytes`` may be reserved (``set_per_process_memory_fraction``)."""
        self.allowed_bytes = nbytes

    def reset_peak(self) -> None:
        """What a program may ask for: peaks begin at what is taken now."""
        self.earlier_peak_bytes = max(self.earlier_peak_bytes, self.peak_bytes)
        self.peak_bytes = self.allocated_bytes
        for counts in (self.segments, self.reserved):
            for count in counts.values():
                count.peak = count.current

    def empty_cache(self) -> None:
        """Give the segments that are wholly free back to the driver. The host waits for streams that still use memory which
        was given back."""
        self._process_waiting(wait=True)
        self.counts["num_sync_all_streams"] += 1
        if self._release() and self.timeline is not None:
            self._has_released = True
            self.timeline.wait_for(self.timeline.device_ready_ns, "cudaFree")

    def _release(self) -> bool:
        """Whether there was a segment to give back."""
        released = 0
        pools = [self._own_pools, *(private.pools for private in self.private_pools if not private.users)]
        for pool in (pool for each in pools for pool in each.values()):
            for nbytes in pool.release():
                released += 1
                for kind in ("all", "small_pool" if pool.is_small else "large_pool"):
                    self.segments[kind].remove(1)
                    self.reserved[kind].remove(nbytes)
        self.counts["num_device_free"] += released
        self.private_pools = [private for private in self.private_pools
                              if private.users or any(pool.segments for pool in private.pools.values())]
        return released > 0

    def _begin(self) -> None:
        """The clocks begin again, and all streams are empty."""
        for _, pool, address, nbytes in self._waiting:
            pool.give_back(address, nbytes)
        self._waiting = []
        self._release()
        self._has_released = False

    def all_pools(self) -> list[Pool]:
        """Those of every stream, private ones too."""
        return [pool for pools in (self._own_pools, *(private.pools for private in self.private_pools))
                for pool in pools.values()]

    @property
    def private(self):
        """Where blocks come from meanwhile: the :class:`PrivatePool` of a capture, or None."""
        return self._private

    @private.setter
    def private(self, private) -> None:
        self._private = private
        self.pools = self._own_pools if private is None else private.pools

    # -- blocks that somebody settles later -----------------------------------------------------------

    def take(self, nbytes: int, address: int) -> None:
        """The block that the ledger knows by ``address`` is memory, of ``nbytes``. Raises OutOfMemory."""
        listeners, self.listeners = self.listeners, ()
        try:
            block = Allocation(self, nbytes)
        finally:
            self.listeners = listeners
        self.settled[address] = block.pool, block.address, block.nbytes, nbytes
        for listener in listeners:
            listener(block.nbytes, address)
        block.nbytes = 0  # what gives it back is `give`

    def give(self, nbytes: int, address: int) -> None:
        """It is free again."""
        pool, where, size, requested = self.settled.pop(address)
        pool.given += 1
        pool.requested_bytes -= requested
        self.allocated_bytes -= size
        pool.give_back(where, size)
        for listener in self.listeners:
            listener(-size, address)

    def stats(self) -> dict:
        """PyTorch's names, nested (``torch.cuda.memory_stats_as_nested_dict``). A peak is there of allocated, active and
        reserved bytes and of segments; of what else is counted only what is now, what came and what went."""
        found: dict = {name: {kind: dict.fromkeys(("current", "allocated", "freed"), 0) for kind in KINDS}
                       for name in ("allocation", "allocated_bytes", "active", "active_bytes")}
        for name in ("inactive_split", "inactive_split_bytes", "requested_bytes"):
            found[name] = {kind: {"current": 0} for kind in KINDS}
        for pool in self.all_pools():
            waiting = [nbytes for _, where, _, nbytes in self._waiting if where is pool]
            active = sum(pool.segments.values()) - pool.free_bytes
            for kind in ("all", "small_pool" if pool.is_small else "large_pool"):
                for name, current, came in (
                        ("allocation", pool.taken - pool.given, pool.taken),
                        ("active", pool.taken - pool.given + len(waiting), pool.taken),
                        ("allocated_bytes", active - sum(waiting), pool.taken_bytes),
                        ("active_bytes", active, pool.taken_bytes)):
                    for what, number in (("current", current), ("allocated", came), ("freed", came - current)):
                        found[name][kind][what] += number
                found["inactive_split"][kind]["current"] += len(pool.split)
                found["inactive_split_bytes"][kind]["current"] += sum(pool.split)
                found["requested_bytes"][kind]["current"] += pool.requested_bytes
        for name in ("allocated_bytes", "active_bytes"):
            found[name]["all"]["peak"] = self.peak_bytes
        found["segment"] = {kind: vars(count).copy() for kind, count in self.segments.items()}
        found["reserved_bytes"] = {kind: vars(count).copy() for kind, count in self.reserved.items()}
        for name, kinds in self._counted_before.items():
            for kind, before in kinds.items():
                for what in before.keys() & {"allocated", "freed"}:
                    found[name][kind][what] -= before[what]
        return found | self.counts | {"max_split_size": -1}

    def reset_accumulated(self) -> None:
        """All that came, went or happened counts from now on."""
        self._counted_before = {}
        self._counted_before = {name: kinds for name, kinds in self.stats().items() if isinstance(kinds, dict)}
        self.counts = dict.fromkeys(self.counts, 0)

    def snapshot(self) -> list[dict]:
        """Each segment and its blocks, in the form of ``torch.cuda.memory_snapshot``, without stacks."""
        used = {each.address: (each.nbytes, each.requested) for each in gc.get_objects()
                if type(each) is Allocation and each.memory is self and each.nbytes and each.pool is not None}
        used |= {address: (nbytes, requested) for _, address, nbytes, requested in self.settled.values()}
        waiting = {address: nbytes for _, _, address, nbytes in self._waiting}
        found = []
        for number, pools in enumerate((self._own_pools, *(private.pools for private in self.private_pools))):
            for pool in pools.values():
                free = dict(pool.free_blocks())
                for start, nbytes in pool.segments.items():
                    blocks, address = [], start
                    while address < start + nbytes:
                        size, requested = used.get(address) or (free.get(address) or waiting[address], 0)
                        blocks.append({"address": address, "size": size, "requested_size": requested, "frames": [],
                                       "state": "active_allocated" if address in used else "inactive" if address in free
                                       else "active_pending_free"})
                        address += size
                    sums = {state: sum(each["size"] for each in blocks if each["state"] == state)
                            for state in ("active_allocated", "active_pending_free")}
                    found.append({
                        "device": 0, "address": start, "total_size": nbytes, "allocated_size": sums["active_allocated"],
                        "active_size": sum(sums.values()), "requested_size": sum(each["requested_size"] for each in blocks),
                        "stream": pool.stream, "segment_type": "small" if pool.is_small else "large",
                        "segment_pool_id": (0, number), "is_expandable": False,
                        "frames": [], "blocks": blocks})
        return sorted(found, key=lambda segment: segment["address"])

    # -- how a block is found -----------------------------------------------------------------------

    @property
    def _driver_bytes(self) -> int:
        """What the driver has left, and the program allows itself."""
        limit = self.capacity_bytes if self.allowed_bytes is None else min(self.allowed_bytes, self.capacity_bytes)
        return limit - self.reserved["all"].current

    def _pool(self, number: int) -> Pool:
        pool = self.pools[number] = Pool(number >> 1, not number & 1)
        return pool

    def _grow(self, pool: Pool, size: int) -> tuple[int, int]:
        """A block of a new segment. Raises OutOfMemory."""
        nbytes = segment_bytes(size)
        if nbytes > self._driver_bytes:
            if self._private is None:  # a graph that is captured cannot wait
                self.empty_cache()
                self.counts["num_alloc_retries"] += 1
            if nbytes > self._driver_bytes:
                self.counts["num_ooms"] += 1
                raise self.out_of_memory(nbytes)
        pool.add(Memory._next_address, nbytes)
        Memory._next_address += nbytes + _GAP_BYTES
        self.counts["num_device_alloc"] += 1
        for kind in ("all", "small_pool" if pool.is_small else "large_pool"):
            self.segments[kind].add(1)
            self.reserved[kind].add(nbytes)
        if self._has_released:
            self.timeline.host_work(CUDA_MALLOC_NS)
        return pool.take(size)

    def out_of_memory(self, nbytes: int) -> OutOfMemory:
        """The error of who asked the driver for ``nbytes``."""
        # The words of PyTorch's own message (malloc in c10/cuda/CUDACachingAllocator.cpp): programs look for its first four.
        # What other processes and the CUDA context take is not modelled, and not said.
        allowed = "" if self.allowed_bytes is None else f"{_binary(self.allowed_bytes)} allowed; "
        kept = sum(pool.free_bytes for private in self.private_pools for pool in private.pools.values())
        allocated = self.allocated_bytes + kept
        private = f"with {_binary(kept)} allocated in private pools (e.g., CUDA Graphs), " if kept else ""
        return OutOfMemory(
            f"CUDA out of memory. Tried to allocate {_binary(nbytes)}. GPU 0 (simulated) has a total capacity of "
            f"{_binary(self.capacity_bytes)} of which {_binary(self.capacity_bytes - self.reserved_bytes)} is free. "
            f"{allowed}Of the allocated memory {_binary(allocated)} is allocated by PyTorch, {private}and "
            f"{_binary(self.reserved_bytes - allocated)} is reserved by PyTorch but unallocated. If reserved but "
            "unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
            "fragmentation.  See documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/"
            "cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)")

    def _process_waiting(self, wait: bool = False) -> None:
        """Take back the blocks that no other stream uses any more, or wait until that is so for all."""
        waiting, self._waiting = self._waiting, []
        for entry in waiting:
            until_ns, pool, address, nbytes = entry
            if wait and self.timeline is not None:
                self.timeline.wait_for(until_ns, "cudaEventSynchronize")
            if wait or until_ns <= self.timeline.host_ns:
                pool.give_back(address, nbytes)
            else:
                self._waiting.append(entry)


class PrivatePool:
    """The private memory of graphs: what was taken while they were captured stays theirs as long as one of them lives.

    A graph's kernels write to the same addresses at each launch, so PyTorch gives nobody else the memory that its capture
    has used, also where the tensors in it are gone (PyTorch's notes, "CUDA semantics", "graph memory management";
    c10/cuda/CUDACachingAllocator.cpp, ``PrivatePool``). It stays reserved: what counts as allocated is the tensors. Within a
    capture memory that was freed is used again.

    Blocks come from it while it is ``memory.private``. ``users``: graphs that need it; behind the last one its segments go
    back to the driver as all others do."""

    def __init__(self, memory: Memory):
        self.memory, self.users = memory, 0
        self.pools: dict[int, Pool] = {}
        memory.private_pools.append(self)

    def release(self) -> None:
        """A graph that needed it is gone."""
        self.users -= 1


class Allocation:
    """A block of a card's memory, freed with the object. ``nbytes``: its size, which may be more than was asked for;
    ``address``: where it begins, a number that no other block of any bytes has meanwhile, 0 for one of none.

    ``key``: what :func:`block` finds it by, None where nobody looks for it; ``stream``: whose it is; ``made``, ``made_on``:
    the launch that wrote it last before somebody kept ``uses``, None where it holds nothing yet, and the number of its
    stream; ``uses``: by bytes, stream and kind; ``kept_for``: streams that are waited for before it is used again
    (``record_stream``); ``ledger``: who has yet to say whether it is memory at all; ``values``: what goes with it, where
    somebody wants to decide when (:attr:`Memory.left`)."""

    __slots__ = ("memory", "nbytes", "address", "stream", "made", "made_on", "uses", "kept_for", "key", "requested", "pool",
                 "ledger", "values", "__weakref__")

    def __init__(self, memory: Memory, nbytes: int):
        self.nbytes = self.address = 0
        self.key: int | None = None
        self.made = self.made_on = self.uses = self.pool = self.ledger = self.values = None
        self.kept_for = ()
        self.memory = memory
        self.requested = nbytes
        timeline = memory.timeline
        self.stream = stream = timeline.current.number if timeline is not None else 0
        if not nbytes:
            return
        if memory.ledger is None:
            if memory._waiting:
                memory._process_waiting()
            size = nbytes + _LESS & -GRANULE_BYTES
            number = 2 * stream + (size > SMALL_BYTES)
            self.pool = pool = memory.pools.get(number) or memory._pool(number)
            self.address, self.nbytes = _, size = pool.take(size) or memory._grow(pool, size)
            pool.taken += 1
            pool.taken_bytes += size
            pool.requested_bytes += nbytes
            allocated = memory.allocated_bytes = memory.allocated_bytes + size
            if allocated > memory.peak_bytes:
                memory.peak_bytes = allocated
            if memory.listeners:
                for listener in memory.listeners:
                    listener(size, self.address)
            return
        size = nbytes + _LESS & -GRANULE_BYTES
        if size > memory.capacity_bytes:
            raise memory.out_of_memory(nbytes)
        self.nbytes, self.address, self.ledger = size, Memory._next_address, memory.ledger
        Memory._next_address += size + _GAP_BYTES  # nobody else's, whatever becomes of it
        memory.ledger.allocated(self)

    def resize(self, nbytes: int) -> None:
        """Another block of ``nbytes`` in place of this one. Both are there for a moment, as what the old one holds is copied
        (ATen, cuda/Resize.cpp, ``resize_bytes_cuda``). Raises OutOfMemory, and keeps the old one."""
        old = Allocation(self.memory, nbytes)  # until the two change places
        old.made, old.made_on = self.made, self.made_on
        for name in ("nbytes", "address", "uses", "kept_for", "requested", "pool", "stream", "ledger"):
            mine = getattr(self, name)
            setattr(self, name, getattr(old, name))
            setattr(old, name, mine)

    def __del__(self):
        # In as few calls as can be: while a profile counts Python's calls, this runs among the program's.
        try:
            key, nbytes = self.key, self.nbytes
        except AttributeError:
            return  # made without __init__: torch.compile probes classes so
        if self.values is not None and self.memory.left is not None:
            self.memory.left.append(self.values)
        if key is not None and key in _blocks:
            known = _blocks[key]()
            if known is None or known is self:  # None where it was part of a cycle: references die first
                del _blocks[key]
        if nbytes:
            memory, pool = self.memory, self.pool
            if self.uses:
                others = [use for use in self.uses.values() if use.stream not in (self.stream, *self.kept_for)]
                if others:
                    memory.freed.append((self.stream, nbytes, others))
                    del memory.freed[:-MOST_FREED]
            ledger = self.ledger or memory.ledger
            if ledger is not None:
                if pool is not None:
                    memory.settled[self.address] = pool, self.address, nbytes, self.requested
                ledger.released(self)
                return
            if pool is None:
                memory.give(nbytes, self.address)
                return
            pool.given += 1
            pool.requested_bytes -= self.requested
            memory.allocated_bytes -= nbytes
            if self.kept_for:
                self._wait()
            else:
                pool.give_back(self.address, nbytes)
            if memory.listeners:
                for listener in memory.listeners:
                    listener(-nbytes, self.address)

    def _wait(self) -> None:
        """The block is free when the streams that use it have done what they hold now."""
        memory = self.memory
        streams = memory.timeline.streams if memory.timeline is not None else {}
        until_ns = max((streams[number].ready_ns for number in self.kept_for if number in streams and number != self.stream),
                       default=0)
        memory._waiting.append((until_ns, self.pool, self.address, self.nbytes))


def _binary(nbytes: int) -> str:
    """As PyTorch writes sizes (``format_size`` in c10/cuda/CUDACachingAllocator.cpp)."""
    if nbytes <= 2**10:
        return f"{nbytes} bytes"
    for unit, size in (("KiB", 2**10), ("MiB", 2**20)):
        if nbytes <= size * 2**10:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes / 2**30:.2f} GiB"
