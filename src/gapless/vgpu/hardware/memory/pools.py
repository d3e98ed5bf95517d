"""The private memory of graphs: what was taken while they were captured stays theirs as long as one of them lives.

A graph's kernels write to the same addresses at each launch, so PyTorch gives nobody else the memory that its capture
has used, also where the tensors in it are gone (PyTorch's notes, "CUDA semantics", "graph memory management";
c10/cuda/CUDACachingAllocator.cpp, ``PrivatePool``). It stays reserved: what counts as allocated is the tensors. Within a
capture memory that was freed is used again.
"""

from __future__ import annotations

from .memory import Memory


class Pool:
    """What blocks come from while it is ``memory.private``. ``users``: graphs that need it; behind the last one its segments
    go back to the driver as all others do."""

    def __init__(self, memory: Memory):
        self.memory, self.users = memory, 0
        self.pools: dict = {}
        memory.private_pools.append(self)

    def release(self) -> None:
        """A graph that needed it is gone."""
        self.users -= 1
