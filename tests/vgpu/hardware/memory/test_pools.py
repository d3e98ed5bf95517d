import pytest

from gapless.vgpu.hardware.memory.memory import Memory, OutOfMemory
from gapless.vgpu.hardware.memory.pools import Pool

MIB = 2**20


def test_a_private_pool_keeps_its_memory_as_long_as_a_graph_needs_it():
    memory = Memory(100 * MIB)
    pool = Pool(memory)
    pool.users = 2
    memory.private = pool
    address = memory.allocate(30 * MIB).address
    memory.private = None
    assert memory.allocate(30 * MIB).address != address
    memory.empty_cache()
    assert (memory.allocated_bytes, memory.reserved_bytes) == (0, 30 * MIB)
    with pytest.raises(OutOfMemory, match=r"with 30.00 MiB allocated in private pools \(e.g., CUDA Graphs\)"):
        memory.allocate(80 * MIB)
    memory.private = pool
    assert memory.allocate(30 * MIB).address == address
    memory.private = None
    pool.release()
    with pytest.raises(OutOfMemory):
        memory.allocate(80 * MIB)
    pool.release()
    assert memory.allocate(80 * MIB).nbytes == 80 * MIB
    assert not memory.private_pools


def test_a_capture_cannot_wait_for_the_cache_to_go_back():
    memory = Memory(100 * MIB)
    memory.allocate(80 * MIB)
    memory.private = pool = Pool(memory)
    pool.users = 1
    with pytest.raises(OutOfMemory):
        memory.allocate(30 * MIB)
    memory.private = None
    assert memory.allocate(30 * MIB).nbytes == 30 * MIB
