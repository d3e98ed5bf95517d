"""Kernels that wait for memory instead of moving much of it: chains of dependent loads, and scattered sectors.

A load that waits for the one before it takes the memory's latency, whatever the bandwidth. Where few such chains run at
once, as in a kernel of one block or where one index occurs a million times, the latency is the time.

Latencies are in cycles of the SM, means of A100 (466, 262, 38), RTX 4090 (542, 273, 43) and H100 (479, 263, 41) as
measured by Luo et al., *Benchmarking and Dissecting the Nvidia Hopper GPU Architecture* (2024, arXiv:2402.13499). The same
are taken for all cards. What was measured of PyTorch itself is held against them in
``records/measured/issues.csv``. Not modelled: misses of the address translation, clocks below the boost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..cards.specs import Card
from . import geometry

SECTOR = 32  # bytes: what memory gives at least (CUDA C++ best practices guide, "coalesced access to global memory")
GLOBAL, L2, L1 = 496, 266, 41  # cycles until a load is there, by where it lies
# A load of the next 8 bytes: of eight that lie in the 64 bytes that come from memory at once, one waits for it.
NEXT = (7 * L1 + GLOBAL) // 8
UNROLLED = 4  # iterations of a plain loop that the compiler makes one of: assumed
L2_BYTES_PER_CYCLE = 64  # from L2 to one SM (NVIDIA A100 whitepaper, 2020)
WARPS_OF_BLOCK = 4  # blocks of 128 threads

def sector_bytes(row_bytes: int) -> int:
    """Bytes of the sectors that a row of ``row_bytes`` touches on average, where rows lie one after the other."""
    return row_bytes + SECTOR - math.gcd(row_bytes, SECTOR)


@dataclass(frozen=True, slots=True)
class Chains:
    """A kernel of ``warps`` warps in blocks of 128 threads. Each waits ``cycles`` in all, on average; the slowest
    ``longest``. It takes the longest of three: its bytes; all chains, as many at once as the card holds; the slowest."""

    kind: str
    bytes: float
    warps: int
    cycles: float
    longest: float

    def start_and_busy_s(self, card: Card, dtype: str) -> tuple[float, float]:
        """Start and busy seconds; the slowest chain leaves the card to others."""
        threads, blocks, _ = geometry.limits(card)
        at_once = card.sm_count * min(threads // geometry.WARP, blocks * WARPS_OF_BLOCK)
        cycle = geometry.cycle_s(card)
        busy = max(self.bytes / (card.bandwidth_bytes_per_s * card.memory_share(self.kind)),
                   self.warps / at_once * self.cycles * cycle)
        start = card.kernel_start_ns.get(self.kind, 0) / 1e9
        return start + max(0.0, self.longest * cycle - busy), busy


@dataclass(frozen=True, slots=True)
class OneBlock:
    """A kernel of one block, whose threads go over rows together in ``passes``, each of ``cycles``, moving ``bytes``."""

    passes: int
    cycles: int
    bytes: int

    def start_and_busy_s(self, card: Card, dtype: str) -> tuple[float, float]:
        """All but one SM are left to others."""
        seconds = self.passes * max(self.cycles, self.bytes / L2_BYTES_PER_CYCLE) * geometry.cycle_s(card)
        return seconds * (1 - 1 / card.sm_count), seconds / card.sm_count


@dataclass(frozen=True, slots=True)
class Repeats:
    """How often rows are hit: ``count`` hits of ``rows`` rows, ``distinct`` of them, one of them ``longest`` times."""

    count: int
    distinct: int
    longest: int


def spread(count: int, rows: int) -> Repeats:
    """Hits at random: how many rows are hit, and how often the one that is hit most (Raab and Steger, 1998)."""
    rows = max(rows, 1)
    mean = count / rows
    longest = min(count, math.ceil(mean + math.sqrt(2 * mean * math.log(max(rows, 2)))) + 1)
    return Repeats(count, min(count, math.ceil(-rows * math.expm1(-mean))), longest)


def accumulation(hits: Repeats, row_elements: int, element_bytes: int, outer: int, in_order: bool,
                 before_2_1: bool = False) -> Chains:
    """The last kernel of ``index_put_(accumulate=True)``, on sorted positions: a warp for each, of which the first of
    equal ones adds all, one after the other (ATen, cuda/Indexing.cu).

    ``row_elements``: of each hit; ``outer``: how many such rows lie apart before the indexed dimension; ``in_order``: the
    values' rows lie as their positions do, as those of a mask; ``before_2_1``: as PyTorch did it up to 2.0 (pull request
    100505).
    """
    row_bytes = row_elements * element_bytes
    read = row_bytes if in_order else sector_bytes(row_bytes)
    moved = outer * (hits.count * (16 + read) + 2 * hits.distinct * read)
    if row_elements == 1 and not before_2_1:  # indexing_backward_kernel_stride_1: counts; 32 lanes add
        first, each = 4 * GLOBAL, NEXT + 2 * GLOBAL / 32
    elif row_elements <= 32 and not before_2_1:  # …_small_stride: counts, then a lane for each element
        first, each = 4 * GLOBAL, NEXT + (NEXT + GLOBAL) / UNROLLED
    else:  # indexing_backward_kernel reads again, out of L2, the target that it has just written
        first, each = 3 * GLOBAL, NEXT + NEXT + GLOBAL + L2
    pieces = -(-row_elements // 128)
    warps = -(-hits.count // WARPS_OF_BLOCK) * WARPS_OF_BLOCK * outer * pieces
    repeated = hits.count - hits.distinct
    cycles = (hits.distinct * first + repeated * (GLOBAL + each)) / max(hits.count, 1)
    return Chains("scatter", moved, warps, cycles, first + (hits.longest - 1) * each)
