"""How long a kernel takes that memory holds back: elementwise operators, softmax and layer norm by rows, optimizers.

A kernel takes a start, and then its bytes at the share of the bandwidth that the card sustains
(``Card.memory_efficiency``). What fits into the L2 cache comes faster: the kernel before wrote it. Where that cannot be,
as with an optimizer's states, the kernel has no ``footprint``.

Softmax and layer norm give each row to a warp or a block of threads, which reads it once or, where a row is too long
for registers, again (ATen, cuda/PersistentSoftmax.cuh, SoftMax.cu, layer_norm_kernel.cu). The second reading comes
from a cache as long as the rows in work at one time fit there. A row also takes its time in an SM, however fast memory
is: loads that wait for each other, reductions over the block, arithmetic.

Times that grow with the work follow from the card's bandwidth and float32 peak, so that a slowed card is slower in all of
them. Fitted to measurements (``fitted/streaming.json``): shares of the bandwidth, what the caches hold, the cycles
of a row. Assumed: the constants named here in capitals, and that backward kernels behave as forward ones do.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..cards.fitted import constants
from . import geometry

if TYPE_CHECKING:
    from ..cards.specs import Card

# ReLUs of AlexNet in a trace of an A100 (the test data of Holistic Trace Analysis): 22 MB in place take 15 µs, 33 MB 51 µs,
# and a bias added through a broadcast 187 µs for 24.8 million elements, even where all of it fits into the L2 cache.
L2_RATE = 2.5  # the L2 cache's rate over the memory's sustained one
# So an element costs 74 integer instructions where the place of each operand is worked out over three dimensions; how many
# of them are a dimension's is assumed.
ELEMENT_INSTRUCTIONS, DIMENSION_INSTRUCTIONS = 20, 18
INTEGER_LANES = 64  # of an SM
# A multi-tensor kernel's block goes through its chunk in steps of four elements a thread. The DDP trace of the same
# test data has 26 µs for those with few, full chunks of 65536 elements, which is 32 steps.
STEP_CYCLES = 1100
TRANSPOSED = 2.0  # how often an operand is read whose neighbours in memory are not neighbours in the result

WARP_ROW, WARP_ROW_BYTES = 1024, 4096  # the longest row that one warp holds in registers (cuda/SoftMax.cu)
VECTOR_BYTES = 16  # of one load

# What a row kernel does → its kind, how many arrays of the rows it reads or writes, and how many of them it reads again
# for each reading after the first.
_ARRAYS = {"softmax": ("reduction", 2, 1), "softmax_backward": ("reduction", 3, 2), "norm": ("normalization", 2, 1),
           "norm_backward": ("normalization", 3, 2)}


def model(card: Card) -> dict:
    """The fitted constants for ``card``."""
    return constants("streaming", card.fit_key)


# -- the L2 cache -----------------------------------------------------------------------------------


def missed(size: float, holds: float, sharpness: float) -> float:
    """Share of the accesses to ``size`` bytes that a cache does not serve which holds about ``holds``: half of them
    where both are the same."""
    return 1 / (1 + (holds / size) ** sharpness) if size else 0.0


def over_l2(card: Card, footprint: float, found: dict | None = None) -> float:
    """How long an access takes of a kernel that touches ``footprint`` bytes, where one to memory takes 1."""
    if footprint > 4 * card.l2_bytes:
        return 1.0
    found = found or model(card)
    # Chips with HBM have their L2 cache in two halves, and what both need is in both.
    share = found.get("l2_share") or found["l2_share_hbm" if is_hbm(card) else "l2_share_gddr"]
    return 1 / L2_RATE + (1 - 1 / L2_RATE) * missed(footprint, share * card.l2_bytes, found["l2_sharpness"])


def is_hbm(card: Card) -> bool:
    """Whether its memory is stacked (HBM): so far, the data sheets' cards of compute capability x.0."""
    return card.compute_capability[1] == 0


# -- elements ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Indexed:
    """An elementwise kernel whose operands lie in different orders, or are broadcast: ``bytes`` for ``elements`` in
    ``dimensions``, after those are merged over which all operands go on alike (ATen's ``elementwise_kernel``,
    cuda/CUDALoops.cuh). ``warm``: the L2 cache may hold what the kernel before wrote."""

    bytes: int
    elements: int
    dimensions: int = 1
    warm: bool = True

    def start_and_busy_s(self, card: Card, dtype: str) -> tuple[float, float]:
        rate = card.bandwidth_bytes_per_s * card.memory_share("pointwise")
        lanes = card.sm_count * INTEGER_LANES * geometry.clock_hz(card)
        memory_s = self.bytes * (over_l2(card, self.bytes) if self.warm else 1.0) / rate
        instructions = self.elements * (ELEMENT_INSTRUCTIONS + DIMENSION_INSTRUCTIONS * self.dimensions)
        return card.kernel_start_ns.get("pointwise", 0) / 1e9, max(memory_s, instructions / lanes)


@dataclass(frozen=True, slots=True)
class Chunks:
    """A multi-tensor kernel: ``bytes`` in all; its longest block takes ``steps``. That is a chunk, which does not grow with
    the work, so that a slowed card is no slower in it."""

    bytes: float
    steps: int

    def start_and_busy_s(self, card: Card, dtype: str) -> tuple[float, float]:
        rate = card.bandwidth_bytes_per_s * card.memory_share("optimizer")
        return (card.kernel_start_ns.get("optimizer", 0) / 1e9,
                max(self.bytes / rate, self.steps * STEP_CYCLES / card.clock_hz))


# -- rows -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rows:
    """A kernel over ``rows`` of ``length`` elements; ``what`` is a key of ``_ARRAYS``. ``warm``: the L2 cache may hold
    what the kernel before wrote."""

    what: str
    rows: int
    length: int
    element_bytes: int = 4
    warm: bool = True

    def start_and_busy_s(self, card: Card, dtype: str) -> tuple[float, float]:
        kind = _ARRAYS[self.what][0]
        shares = {each: card.memory_share(each) for each in (kind, "pointwise")}
        return card.kernel_start_ns.get(kind, 0) / 1e9, rows_busy_s(self, card, shares, model(card))


def rows_busy_s(problem: Rows, card: Card, shares: dict, found: dict) -> float:
    """Seconds for ``problem``, with the card's ``shares`` of the bandwidth by kind and the constants ``found``."""
    kind, arrays, again = _ARRAYS[problem.what]
    form, threads, rereads, steps = launch(problem.what, problem.length, problem.element_bytes)
    resident = card.sm_count * (geometry.limits(card)[0] // threads)
    row_bytes = problem.length * problem.element_bytes
    share = shares[kind]
    if form == "warp":  # which moves data as elementwise kernels do
        share = shares["pointwise"] * found["warp_share"]
        if row_bytes % VECTOR_BYTES and card.compute_capability[0] < 8:
            share *= found["unaligned_share"]
    moved = float(arrays) * problem.rows * row_bytes
    touched = moved * (over_l2(card, moved, found) if problem.warm else 1.0)
    if rereads:
        in_work = again * resident * row_bytes
        touched += again * rereads * problem.rows * row_bytes * missed(in_work, found[f"{form}_window"] * card.l2_bytes,
                                                                       found["window_sharpness"])
    memory_s = touched / (card.bandwidth_bytes_per_s * share)
    # Softmax's blocks wait for memory side by side; in a norm, arithmetic fills the SM, however many blocks it holds.
    waves = max(problem.rows / resident, 1.0)
    cycles = found[f"{form}_cycles"] + found[f"{form}_cycles_each"] * steps
    sm_s = (max(problem.rows / card.sm_count, 1.0) if form == "norm" else waves) * cycles / geometry.clock_hz(card)
    # The two overlap, not quite; and the last rows in work leave the places of others empty.
    power = found["overlap"]
    return (memory_s**power + sm_s**power) ** (1 / power) * (1 + found["tail"] / waves)


@functools.lru_cache(maxsize=4096)
def launch(what: str, length: int, element_bytes: int) -> tuple[str, int, int, int]:
    """(its name among the constants, threads a row, readings after the first, steps over a row)."""
    vector = VECTOR_BYTES // element_bytes
    if what.startswith("norm"):  # 4 warps a row; mean and variance first, then the row again
        return "norm", 128, 1, -(-length // (128 * vector))
    rereads = 2 if what == "softmax" else 1  # a maximum, a sum, the results; backward a sum, the results
    if length <= WARP_ROW and length * element_bytes <= WARP_ROW_BYTES:
        return "warp", 32 if length > 128 else 16, 0, -(-length // 32)
    threads = 32
    while threads < min(length // vector, 1024) // 2:
        threads *= 2
    # Whole vectors of all threads first, then element by element.
    vectors = length // (threads * vector)
    return "block", threads, rereads, vectors + -(-(length - vectors * threads * vector) // threads)
