"""How long a matrix product takes: tiles of the result, in waves over the multiprocessors.

cuBLAS cuts each result into tiles; a multiprocessor (SM) sums a tile over the whole depth, then writes it. So a
product costs, with tiles of one shape:

    waves × (the tile's FLOPs × (1 + the shape's loss) ÷ an SM's rate + what of its writing is exposed)

The last wave runs partly empty, and tiles at the edge are computed whole. Memory traffic overlaps with that. A deep sum
with few tiles is split among SMs and added up by a second kernel. Of the shapes that the library has, the fastest is
taken, as cuBLAS's heuristics mean to. The rate that the SMs sustain is the card's own where it was measured, else
:func:`sustained_share` tells it from the data sheet.

In float32 without tensor cores the constants are ``fitted/products.json``, on tensor cores (:mod:`.tensor_cores`)
``fitted/half_products.json``, with larger tiles. The functions take arrays as well as numbers:
:mod:`gapless.fidelity.fit.products` and :mod:`~gapless.fidelity.fit.half_products` fit with them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..cards.fitted import constants
from ..cards.specs import Card
from .geometry import lanes

# Tile shapes, columns × rows of a row-major result, that the kernels of cuBLAS 12 have in their names
# ("ampere_sgemm_128x64_tn") by the compute capability's first digit. Batches of products get fewer of them.
_SLIM = ((128, 32), (32, 128), (64, 32), (32, 32))
SINGLE = {7: ((128, 128), (128, 64), (64, 64), *_SLIM), 8: ((128, 128), (128, 64), (64, 64), *_SLIM),
          9: ((128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64), *_SLIM)}
BATCHED = {7: ((128, 64), (64, 64), (128, 32), (32, 128)), 8: ((128, 128),), 9: SINGLE[9]}
V100_BATCHED = BATCHED[7][1:]
# Of kernels for tensor cores ("ampere_fp16_s16816gemm_fp16_256x128_…"), of every generation.
TENSOR = ((256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64), (64, 32), (32, 64))

SPLIT_DEPTH = 128  # no part of a split sum is shorter
SPLIT_BYTES = 2**20  # of partial sums at most: PyTorch gives cuBLASLt so much workspace (ATen, cuda/CUDABlas.cpp)
SECTOR = 32  # bytes that L2 moves at once
SMALL_L2_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Product:
    """``matrices`` products of ``rows × depth`` and ``depth × columns``, each element of ``element_bytes``.

    ``layout`` as in the kernels' names: ``tn`` where the depth is innermost in both operands (a linear layer), else ``nn``.
    """

    matrices: int
    rows: int
    columns: int
    depth: int
    element_bytes: int = 4
    layout: str = "nn"

    def start_and_busy_s(self, card: Card, dtype: str) -> tuple[float, float]:
        """Seconds before the first tile's sums, and seconds in which the product has all of ``card``."""
        known = constants("products", card.fit_key)
        if self.rows == 1 or self.columns == 1:
            return known["start_s"], vector_s(self, card)
        return start_and_busy_s(self, card, known, self.matrices > 1)


def seconds(product: Product, card: Card) -> float:
    """Seconds that the kernels of ``product`` run."""
    return sum(product.start_and_busy_s(card, "float32"))


def vector_s(product: Product, card: Card) -> float:
    """Seconds of a product with a vector, which has kernels of its own (gemv): it reads everything once."""
    operands = product.depth * (product.rows + product.columns) + product.rows * product.columns
    size = product.matrices * operands * product.element_bytes
    return size / (card.bandwidth_bytes_per_s * card.memory_share("matmul"))


def start_and_busy_s(product, card: Card, known: dict, batched: bool, least=min, most=max, dtype: str = "float32"):
    """As ``Product.start_and_busy_s``, with the constants ``known`` and the tiles of a batch or of a single product.
    ``dtype`` other than float32: on tensor cores, at the ``rate_share`` in ``known``.

    ``least`` and ``most``: of two numbers, or of two arrays where ``product`` has arrays.
    """
    share = rate_share(card, known)
    sm_rate = card.peak_flops[dtype] * share / card.sm_count
    busy = None
    for columns, rows in tiles_of(card, batched) if dtype == "float32" else TENSOR:
        found = _tiled_s(product, card, sm_rate, columns, rows, batched, known, least, most)
        busy = found if busy is None else least(busy, found)
    if dtype != "float32":
        return known["start_s"], busy
    # The board's power is averaged over a while: a shorter product is held back less, as far as power holds it.
    held = max(0.0, 1 - share / known[f"fed_share_{lanes(card)}"])
    average = known["power_average_s"] * nominal_flops(card) / card.peak_flops["float32"]
    busy = busy * (1 - known["burst"] * held / (1 + (busy / average) ** 2))
    return known["start_s"], busy


def _tiled_s(product, card, sm_rate, columns, rows, batched, known, least, most):
    """Seconds with tiles of ``columns × rows``: with whole sums or split ones, whichever is faster."""
    tiles = product.matrices * -(-product.columns // columns) * -(-product.rows // rows)
    # For each depth a tile reads columns + rows numbers from shared memory: small tiles do it more often for their FLOPs.
    flops = 2 * columns * rows * (1 + known["tile_loss"] * (128 / columns + 128 / rows - 2))
    if product.layout == "tn":  # both operands are turned on their way into shared memory
        flops = flops * (1 + known["tn_loss"])
    bandwidth = card.bandwidth_bytes_per_s * known["memory_share"]
    # What of writing a tile no other tile's sums hide: more in newer kernels, which keep fewer tiles on an SM at a time.
    fill = known[f"exposed_{_generation(card)}"] * columns * rows * product.element_bytes * card.sm_count / bandwidth
    # Bytes: everything once; where a matrix's operands do not fit into L2, each wave reads its rows and columns again.
    results = product.matrices * product.rows * product.columns * product.element_bytes
    operands = product.depth * (product.rows + product.columns) * product.element_bytes
    again = tiles * product.depth * product.element_bytes * (columns * rows / card.sm_count) ** 0.5
    again = known["reread"] * again / (1 + (card.l2_bytes / operands) ** 2)
    memory = (results + product.matrices * operands + again) / bandwidth
    if card.l2_bytes < SMALL_L2_BYTES:
        # Rows that start inside a sector are read in pieces, and a piece is gone when its neighbour is wanted.
        odd = (product.depth * product.element_bytes % SECTOR != 0) | (product.columns * product.element_bytes % SECTOR != 0)
        memory = memory * (1 + known["odd_bytes"] * odd)

    def in_waves(count, depth):
        waves = count / card.sm_count
        waves = waves + known["tail"] * (-(-count // card.sm_count) - waves)
        compute = waves * (flops * depth / sm_rate + fill)
        compute = most(compute, known["lone_flops"] * depth / sm_rate + fill)
        return (compute ** known["overlap"] + memory ** known["overlap"]) ** (1 / known["overlap"])

    whole = in_waves(tiles, product.depth)
    if batched:
        return whole
    parts = most(1, least(least(card.sm_count // tiles, product.depth // SPLIT_DEPTH), SPLIT_BYTES // results))
    added = known["split_s"] + results * (parts + 1) / bandwidth
    return least(whole, in_waves(tiles * parts, product.depth / parts) + added)


def tiles_of(card: Card, batched: bool) -> tuple[tuple[int, int], ...]:
    """The shapes of tiles, columns × rows, that the library has for ``card``."""
    if batched and card.compute_capability == (7, 0):
        return V100_BATCHED
    return (BATCHED if batched else SINGLE)[_generation(card)]


def _generation(card: Card) -> int:
    """First digit of the compute capability whose kernels are known: Volta and Turing 7, Ampere and Ada 8, Hopper 9."""
    return min(max(card.compute_capability[0], 7), 9)


def rate_share(card: Card, known: dict) -> float:
    """Share of the float32 peak that large products sustain: the card's own, else as its data sheet lets expect."""
    return known.get("rate_share") or sustained_share(card, known)


def nominal_flops(card: Card) -> float:
    """The float32 peak of a card like ``card`` that nothing else slows: two FLOPs a lane and cycle."""
    return 2 * lanes(card) * card.sm_count * card.clock_hz


def sustained_share(card: Card, known: dict) -> float:
    """Share of the float32 peak that large products sustain, from the data sheet: the lower of two limits, rounded off.

    An SM with 128 lanes feeds them less well from its shared memory than one with 64. And the board's power, less what
    the SMs take idle, pays for so many FLOPs: joules a FLOP in proportion to the process (nm).
    """
    fed = known[f"fed_share_{lanes(card)}"]
    power = card.power_w - known["idle_w_per_sm"] * card.sm_count
    paid = power / (known["joules_per_flop_nm"] * card.process_nm) / nominal_flops(card)
    return (fed**-8 + paid**-8) ** (-1 / 8)
