"""The model against PyTorch's own allocator, whose answers benchmarks/allocator_answers.py has written down."""

import json
from pathlib import Path

import pytest

from gapless.vgpu.hardware.memory.allocator import MIB, Pool, segment_bytes
from gapless.vgpu.hardware.memory.memory import Memory, OutOfMemory

REAL = json.loads((Path(__file__).parent / "allocator_answers.json").read_text())


class Stream:
    number = 0


class Streams:
    """Stands for the timeline: nothing here takes time."""

    def __init__(self):
        self.current, self.streams, self.host_ns, self.device_ready_ns = Stream(), {}, 0, 0

    def host_work(self, ns):
        """No clock."""

    def wait_for(self, until_ns, name):
        """No clock."""


@pytest.mark.parametrize("name", REAL["programs"])
def test_every_block_and_every_sum_is_that_of_pytorchs_allocator(name):
    program = REAL["programs"][name]
    streams, base, living, message = Streams(), None, {}, None
    memory = Memory(program["capacity_bytes"], streams)
    for number, ((kind, *rest), (address, allocated, reserved)) in enumerate(zip(program["events"], program["answers"])):
        found = None
        if kind == "take":
            block, nbytes, streams.current.number = rest
            try:
                living[block] = memory.allocate(nbytes)
                base = living[block].address if base is None else base
                found = living[block].address - base
            except OutOfMemory as error:
                message = str(error)
        elif kind == "give":
            living.pop(rest[0], None)
        else:
            memory.empty_cache()
        assert (found, memory.allocated_bytes, memory.reserved_bytes) == (address, allocated, reserved), f"event {number}"
    assert (message or "").replace(" (simulated)", "") == (program["message"] or "")
    flat = {f"{name}.{kind}.{what}": number for name, kinds in memory.stats().items() if isinstance(kinds, dict)
            for kind, counts in kinds.items() for what, number in counts.items()}
    assert {key: program["stats"][key] for key in flat} == flat
    for key in ("num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free"):
        assert memory.stats()[key] == program["stats"][key], key
    for *_, blocks in program["snapshot"]:
        for block in blocks:
            block[1] *= block[2] == "active_allocated"  # a free block of PyTorch's still tells of its last use
    assert [[segment["address"] - base, segment["total_size"], segment["segment_type"], segment["stream"],
             [[block["size"], block["requested_size"], block["state"]] for block in segment["blocks"]]]
            for segment in memory.snapshot()] == program["snapshot"]


def test_the_programs_come_to_all_that_can_happen():
    stats = [program["stats"] for program in REAL["programs"].values()]
    for what in ("num_ooms", "num_alloc_retries", "num_device_free", "inactive_split_bytes.large_pool.current",
                 "inactive_split_bytes.small_pool.current"):
        assert any(each[what] for each in stats), what


@pytest.mark.parametrize("nbytes, segment", [(1, 2 * MIB), (MIB, 2 * MIB), (MIB + 1, 20 * MIB), (10 * MIB - 1, 20 * MIB),
                                             (10 * MIB, 10 * MIB), (10 * MIB + 1, 12 * MIB), (21 * MIB, 22 * MIB)])
def test_the_size_of_a_segment(nbytes, segment):
    assert segment_bytes(nbytes) == segment


def test_a_pool_takes_the_smallest_that_fits_and_merges_what_comes_back():
    pool = Pool(0, is_small=False)
    pool.add(0, 20 * MIB)
    pool.add(100 * MIB, 30 * MIB)
    first, second = pool.take(8 * MIB), pool.take(11 * MIB)
    assert (first, second) == ((0, 8 * MIB), (8 * MIB, 12 * MIB))  # a rest of 1 MiB is not cut off
    assert pool.take(8 * MIB) == (100 * MIB, 8 * MIB)
    assert pool.free_blocks() == [(108 * MIB, 22 * MIB)] and pool.split == [22 * MIB]
    pool.give_back(*second)
    pool.give_back(*first)
    assert pool.free_blocks() == [(0, 20 * MIB), (108 * MIB, 22 * MIB)]
    assert pool.largest_free_bytes == 22 * MIB and pool.free_bytes == 42 * MIB
    assert pool.release() == [20 * MIB] and pool.segments == {100 * MIB: 30 * MIB}
