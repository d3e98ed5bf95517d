"""The cards that the virtual GPU can model: what their data sheets say, and the host beside them.

Peaks are dense (no structured sparsity). The efficiencies that turn a peak into a rate are assumptions until
``gapless calibrate`` has measured a card: round figures for well-tuned kernels, the same for all cards. Nothing in
this file is fitted to a measurement; a card file (:mod:`gapless.vgpu.hardware.cardfile`) may be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

GIB = 2**30

# Share of the memory bandwidth that a kernel of a kind reaches, and of the arithmetic peak. A kind may be followed by
# a dtype ("matmul:bfloat16"), which then counts before the kind alone.
MEMORY_EFFICIENCY: Mapping[str, float] = {
    "pointwise": 0.85,
    "reduction": 0.80,
    "gather": 0.50,
    "scatter": 0.40,
    "sort": 0.70,
    "scan": 0.70,
    "convolution": 0.70,
    "matmul": 0.80,
    "attention": 0.70,
    "normalization": 0.75,
    "optimizer": 0.80,
    "memset": 0.90,
}
MATH_EFFICIENCY: Mapping[str, float] = {"convolution": 0.55, "matmul": 0.75, "attention": 0.50}

KERNEL_FLOOR_NS = 2_000  # no kernel is shorter


class CardError(ValueError):
    """A card cannot be used: the message says which and why."""


class UnknownCard(CardError):
    """The name is no card that the virtual GPU knows. The message lists those it knows."""


@dataclass(frozen=True)
class Host:
    """The processor that feeds the GPU. Assumptions, not measurements: round figures of the order
    that profiles of PyTorch on server processors show, the same for all cards.

    ``op_ns``: Python, dispatcher and autograd for one operator; ``view_ns``: the same for one that only
    makes a view; ``launch_ns``: one runtime call that
    puts a kernel or a copy in the queue; ``sync_ns``: returning from a wait; ``queue_length``: kernels
    that may wait in the launch queue before a launch blocks; the ``…_share`` are the parts of the slot's
    rate that a copy from pinned and from pageable memory reaches. What the host computes
    on CPU tensors takes no modelled time.
    """

    op_ns: int = 8_000
    view_ns: int = 2_000
    launch_ns: int = 4_000
    sync_ns: int = 5_000
    queue_length: int = 1024
    pinned_share: float = 0.8
    pageable_share: float = 0.3


@dataclass(frozen=True)
class Card:
    """One GPU, from its data sheet or from a card file.

    ``peak_flops``: dtype → FLOP/s of a dense matrix product; ``tf32`` is what a float32 product
    gets where TF32 is allowed, absent on cards before Ampere. ``pcie_bytes_per_s`` is the slot's one-way rate.
    ``kernel_start_ns``: what a kernel of a kind takes before it moves its first byte.
    """

    key: str
    name: str
    memory_bytes: int
    bandwidth_bytes_per_s: float
    peak_flops: dict[str, float]
    sm_count: int
    pcie_bytes_per_s: float
    compute_capability: tuple[int, int]
    source: str
    memory_efficiency: Mapping[str, float] = field(default_factory=lambda: dict(MEMORY_EFFICIENCY))
    math_efficiency: Mapping[str, float] = field(default_factory=lambda: dict(MATH_EFFICIENCY))
    kernel_floor_ns: int = KERNEL_FLOOR_NS
    kernel_start_ns: Mapping[str, float] = field(default_factory=dict)
    host: Host = Host()

    def memory_share(self, kind: str) -> float:
        """Share of the bandwidth that a kernel of ``kind`` reaches."""
        share = self.memory_efficiency.get(kind)
        return MEMORY_EFFICIENCY[kind] if share is None else share

    def math_share(self, kind: str, dtype: str) -> float:
        """Share of the peak of ``dtype`` that a kernel of ``kind`` reaches."""
        share = self.math_efficiency.get(f"{kind}:{dtype}", self.math_efficiency.get(kind))
        return MATH_EFFICIENCY[kind] if share is None else share

    def slowed(self, factor: float, floor: float = 1.0) -> Card:
        """A card ``factor`` times as slow in arithmetic, memory and copies: so work that grows with its size takes as long
        there as ``factor`` times the work here. Its shortest kernel is ``floor`` times as long."""
        return replace(self, bandwidth_bytes_per_s=self.bandwidth_bytes_per_s / factor,
                       pcie_bytes_per_s=self.pcie_bytes_per_s / factor,
                       peak_flops={dtype: rate / factor for dtype, rate in self.peak_flops.items()},
                       kernel_floor_ns=round(self.kernel_floor_ns * floor))


_T = 1e12
_G = 1e9

CARDS: dict[str, Card] = {
    card.key: card
    for card in (
        Card("t4", "Tesla T4", 16 * GIB, 320 * _G, {"float32": 8.1 * _T, "float16": 65 * _T}, 40, 16 * _G, (7, 5),
             "NVIDIA T4 Tensor Core GPU data sheet (2019)"),
        Card("v100", "Tesla V100-SXM2-16GB", 16 * GIB, 900 * _G, {"float32": 15.7 * _T, "float16": 125 * _T}, 80,
             16 * _G, (7, 0), "NVIDIA V100 Tensor Core GPU data sheet (2020), SXM2"),
        Card("a10g", "NVIDIA A10G", 24 * GIB, 600 * _G,
             {"float32": 35 * _T, "tf32": 35 * _T, "float16": 70 * _T, "bfloat16": 70 * _T}, 80, 32 * _G, (8, 6),
             "NVIDIA A10G data sheet for Amazon EC2 G5 (2021); SM count as the driver reports it"),
        Card("a40", "NVIDIA A40", 48 * GIB, 696 * _G,
             {"float32": 37.4 * _T, "tf32": 74.8 * _T, "float16": 149.7 * _T, "bfloat16": 149.7 * _T}, 84, 32 * _G,
             (8, 6), "NVIDIA A40 data sheet (2021)"),
        Card("a100", "NVIDIA A100-SXM4-40GB", 40 * GIB, 1555 * _G,
             {"float32": 19.5 * _T, "tf32": 156 * _T, "float16": 312 * _T, "bfloat16": 312 * _T}, 108, 32 * _G,
             (8, 0), "NVIDIA A100 Tensor Core GPU data sheet (2020), SXM 40 GB"),
        Card("l4", "NVIDIA L4", 24 * GIB, 300 * _G,
             {"float32": 30.3 * _T, "tf32": 60 * _T, "float16": 121 * _T, "bfloat16": 121 * _T}, 58, 32 * _G, (8, 9),
             "NVIDIA L4 Tensor Core GPU data sheet (2023); dense is half of the sparse figures it gives"),
        Card("h100", "NVIDIA H100 80GB HBM3", 80 * GIB, 3350 * _G,
             {"float32": 67 * _T, "tf32": 494.5 * _T, "float16": 989.5 * _T, "bfloat16": 989.5 * _T}, 132, 64 * _G,
             (9, 0), "NVIDIA H100 Tensor Core GPU data sheet (2023), SXM; dense is half of the sparse figures it gives"),
        Card("h200", "NVIDIA H200", 141 * GIB, 4800 * _G,
             {"float32": 67 * _T, "tf32": 494.5 * _T, "float16": 989.5 * _T, "bfloat16": 989.5 * _T}, 132, 64 * _G,
             (9, 0), "NVIDIA H200 Tensor Core GPU data sheet (2024), SXM; dense is half of the sparse figures it gives"),
    )
}

DEFAULT_CARD = "a10g"


def find_model(gpu: str) -> str | None:
    """The key of the card that the virtual GPU would model for a GPU that CUDA calls ``gpu``, else None."""
    words = gpu.lower().replace("-", " ").split()
    return next((key for key in CARDS if key in words), None)
