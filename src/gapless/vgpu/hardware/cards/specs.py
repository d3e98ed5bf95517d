"""The cards that the virtual GPU can model: what their data sheets say, and the host beside them.

Peaks are dense (no structured sparsity). The efficiencies that turn a peak into a rate are assumptions until
``gapless calibrate`` has measured a card: round figures for well-tuned kernels, the same for all cards. Nothing in
this file is fitted to a measurement; a card file (:mod:`.cardfile`) may be.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .fitted import constants

GIB, MIB = 2**30, 2**20

# Share of the memory bandwidth that a kernel of a kind reaches, and of the arithmetic peak. A kind may be followed by
# a dtype ("matmul:bfloat16"), which then counts before the kind alone. What a card file leaves out is taken from here;
# the cards below take what was fitted (:func:`_sustained`), and from here how other kinds compare with elementwise kernels.
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
MATH_EFFICIENCY: Mapping[str, float] = {"convolution": 0.55, "matmul": 0.75, "attention": 0.50, "pointwise": 1.0}

KERNEL_FLOOR_NS = 2_000  # no kernel is shorter
START_NS = 2_000  # what a kernel that memory holds back takes before its first byte: see :mod:`..times.streaming`
STREAMING_KINDS = ("pointwise", "reduction", "normalization", "optimizer", "memset")


class CardError(ValueError):
    """A card cannot be used: the message says which and why."""


class UnknownCard(CardError):
    """The name is no card that the virtual GPU knows. The message lists those it knows."""


_HOST = constants("host")


@dataclass(frozen=True)
class Host:
    """The processor that feeds the GPU; the same for all cards.

    From traces of real hosts, brought to what hosts without a profiler took (:mod:`gapless.fidelity.fit.host`): ``op_ns``:
    binding, dispatcher, autograd and ATen for one operator, without Python's own work and without the launch;
    ``library_op_ns``: for one that finds its kernel through cuBLAS or cuDNN; ``view_ns``: for one that only makes a view;
    ``launch_ns``: one runtime call that puts a kernel or a copy in the queue; ``sync_ns``: returning from a wait;
    ``python_call_ns``: one call of a Python function, with all that it does itself. Operators of a backward pass take as
    long: no Python, but the engine between them.

    Assumptions: ``queue_length``: kernels that may wait in the launch queue before a launch blocks; the ``…_share`` are the
    parts of the slot's rate that a copy from pinned and from pageable memory reaches; ``cores`` that serve one GPU, each
    computing ``core_flops`` a second in float32 and moving ``core_bytes_per_s``, all together no more than
    ``memory_bytes_per_s``: those of a cloud instance with one GPU and 8 virtual cores.
    """

    op_ns: int = _HOST["op_ns"]
    view_ns: int = _HOST["view_ns"]
    library_op_ns: int = _HOST["library_op_ns"]
    launch_ns: int = _HOST["launch_ns"]
    sync_ns: int = _HOST["sync_ns"]
    python_call_ns: int = _HOST["python_call_ns"]
    queue_length: int = 1024
    pinned_share: float = 0.8
    pageable_share: float = 0.3
    cores: int = 8
    core_flops: float = 50e9
    core_bytes_per_s: float = 10e9
    memory_bytes_per_s: float = 60e9


@dataclass(frozen=True)
class Card:
    """One GPU, from its data sheet or from a card file.

    ``peak_flops``: dtype → FLOP/s of a dense matrix product; ``tf32`` is what a float32 product
    gets where TF32 is allowed, absent on cards before Ampere. ``pcie_bytes_per_s`` is the slot's one-way rate.
    ``kernel_start_ns``: what a kernel of a kind takes before it moves its first byte. ``l2_bytes``: its L2 cache.
    ``clock_hz``: the boost clock; ``power_w``: the board's limit; ``process_nm``: the process that the data sheet
    names: from these follows the clock that a card holds under load. ``fitted_as``: the card whose fitted constants
    it takes, where not its own. ``time_factors``: kind of kernel, or kind and dtype ("matmul:bfloat16") → the time that
    those with a model of their own (``Kernel.problem``) took here over what it says.
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
    l2_bytes: int = 6 * 2**20
    clock_hz: float = 1.5e9
    power_w: float = 300.0
    process_nm: int = 7
    fitted_as: str | None = None
    time_factors: Mapping[str, float] = field(default_factory=dict)

    @property
    def fit_key(self) -> str:
        """The card whose fitted constants this one takes (:mod:`.fitted`)."""
        return self.fitted_as or self.key

    @functools.cached_property
    def times(self) -> dict:
        """What the models of kernel times have worked out for this card, by the problem."""
        return {}

    def memory_share(self, kind: str) -> float:
        """Share of the bandwidth that a kernel of ``kind`` reaches."""
        share = self.memory_efficiency.get(kind)
        return MEMORY_EFFICIENCY[kind] if share is None else share

    def math_share(self, kind: str, dtype: str) -> float:
        """Share of the peak of ``dtype`` that a kernel of ``kind`` reaches."""
        share = self.math_efficiency.get(f"{kind}:{dtype}", self.math_efficiency.get(kind))
        return MATH_EFFICIENCY[kind] if share is None else share

    def time_factor(self, kind: str, dtype: str) -> float:
        """What the modelled time of a kernel of ``kind`` with a problem is multiplied by."""
        return self.time_factors.get(f"{kind}:{dtype}", self.time_factors.get(kind, 1.0))

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
        Card("t4", "Tesla T4", 16 * GIB, 320 * _G,
             {"float32": 8.1 * _T, "float16": 65 * _T},
             40, 16 * _G, (7, 5), l2_bytes=4 * MIB, clock_hz=1.59 * _G, power_w=70, process_nm=12,
             source="NVIDIA T4 Tensor Core GPU data sheet (2019)"),
        Card("v100", "Tesla V100-SXM2-16GB", 16 * GIB, 900 * _G,
             {"float32": 15.7 * _T, "float16": 125 * _T},
             80, 16 * _G, (7, 0), l2_bytes=6 * MIB, clock_hz=1.53 * _G, power_w=300, process_nm=12,
             source="NVIDIA V100 Tensor Core GPU data sheet (2020), SXM2"),
        Card("v100_pcie", "Tesla V100-PCIE-32GB", 32 * GIB, 900 * _G,
             {"float32": 14 * _T, "float16": 112 * _T},
             80, 16 * _G, (7, 0), l2_bytes=6 * MIB, clock_hz=1.38 * _G, power_w=250, process_nm=12,
             source="NVIDIA V100 Tensor Core GPU data sheet (2020), PCIe 32 GB"),
        Card("a10g", "NVIDIA A10G", 24 * GIB, 600 * _G,
             {"float32": 35 * _T, "tf32": 35 * _T, "float16": 70 * _T, "bfloat16": 70 * _T},
             80, 32 * _G, (8, 6), l2_bytes=6 * MIB, clock_hz=1.71 * _G, power_w=300, process_nm=8,
             source="NVIDIA A10G data sheet for Amazon EC2 G5 (2021); SM count and power limit as the driver reports them"),
        Card("a40", "NVIDIA A40", 48 * GIB, 696 * _G,
             {"float32": 37.4 * _T, "tf32": 74.8 * _T, "float16": 149.7 * _T, "bfloat16": 149.7 * _T},
             84, 32 * _G, (8, 6), l2_bytes=6 * MIB, clock_hz=1.74 * _G, power_w=300, process_nm=8,
             source="NVIDIA A40 data sheet (2021)"),
        Card("rtx3090", "NVIDIA GeForce RTX 3090", 24 * GIB, 936 * _G,
             {"float32": 35.6 * _T, "tf32": 35.6 * _T, "float16": 71 * _T, "bfloat16": 71 * _T},
             82, 32 * _G, (8, 6), l2_bytes=6 * MIB, clock_hz=1.695 * _G, power_w=350, process_nm=8,
             source="NVIDIA Ampere GA102 GPU architecture, whitepaper (2021); tensor cores with float32 sums"),
        Card("a100", "NVIDIA A100-SXM4-40GB", 40 * GIB, 1555 * _G,
             {"float32": 19.5 * _T, "tf32": 156 * _T, "float16": 312 * _T, "bfloat16": 312 * _T},
             108, 32 * _G, (8, 0), l2_bytes=40 * MIB, clock_hz=1.41 * _G, power_w=400, process_nm=7,
             source="NVIDIA A100 Tensor Core GPU data sheet (2020), SXM 40 GB"),
        Card("a100_80gb", "NVIDIA A100-SXM4-80GB", 80 * GIB, 2039 * _G,
             {"float32": 19.5 * _T, "tf32": 156 * _T, "float16": 312 * _T, "bfloat16": 312 * _T},
             108, 32 * _G, (8, 0), l2_bytes=40 * MIB, clock_hz=1.41 * _G, power_w=400, process_nm=7,
             source="NVIDIA A100 Tensor Core GPU data sheet (2021), SXM 80 GB"),
        Card("a100_pcie", "NVIDIA A100-PCIE-40GB", 40 * GIB, 1555 * _G,
             {"float32": 19.5 * _T, "tf32": 156 * _T, "float16": 312 * _T, "bfloat16": 312 * _T},
             108, 32 * _G, (8, 0), l2_bytes=40 * MIB, clock_hz=1.41 * _G, power_w=250, process_nm=7,
             source="NVIDIA A100 Tensor Core GPU data sheet (2020), PCIe 40 GB"),
        Card("a100_80gb_pcie", "NVIDIA A100 80GB PCIe", 80 * GIB, 1935 * _G,
             {"float32": 19.5 * _T, "tf32": 156 * _T, "float16": 312 * _T, "bfloat16": 312 * _T},
             108, 32 * _G, (8, 0), l2_bytes=40 * MIB, clock_hz=1.41 * _G, power_w=300, process_nm=7,
             source="NVIDIA A100 Tensor Core GPU data sheet (2021), PCIe 80 GB"),
        Card("l4", "NVIDIA L4", 24 * GIB, 300 * _G,
             {"float32": 30.3 * _T, "tf32": 60 * _T, "float16": 121 * _T, "bfloat16": 121 * _T},
             58, 32 * _G, (8, 9), l2_bytes=48 * MIB, clock_hz=2.04 * _G, power_w=72, process_nm=4,
             source="NVIDIA L4 Tensor Core GPU data sheet (2023); dense is half of the sparse figures it gives"),
        Card("rtx4090", "NVIDIA GeForce RTX 4090", 24 * GIB, 1008 * _G,
             {"float32": 82.6 * _T, "tf32": 82.6 * _T, "float16": 165.2 * _T, "bfloat16": 165.2 * _T},
             128, 32 * _G, (8, 9), l2_bytes=72 * MIB, clock_hz=2.52 * _G, power_w=450, process_nm=4,
             source="NVIDIA Ada GPU architecture, whitepaper (2022); tensor cores with float32 sums"),
        Card("h100", "NVIDIA H100 80GB HBM3", 80 * GIB, 3350 * _G,
             {"float32": 67 * _T, "tf32": 494.5 * _T, "float16": 989.5 * _T, "bfloat16": 989.5 * _T},
             132, 64 * _G, (9, 0), l2_bytes=50 * MIB, clock_hz=1.98 * _G, power_w=700, process_nm=4,
             source="NVIDIA H100 Tensor Core GPU data sheet (2023), SXM; dense is half of the sparse figures it gives"),
        Card("h200", "NVIDIA H200", 141 * GIB, 4800 * _G,
             {"float32": 67 * _T, "tf32": 494.5 * _T, "float16": 989.5 * _T, "bfloat16": 989.5 * _T},
             132, 64 * _G, (9, 0), l2_bytes=50 * MIB, clock_hz=1.98 * _G, power_w=700, process_nm=4,
             source="NVIDIA H200 Tensor Core GPU data sheet (2024), SXM; dense is half of the sparse figures it gives"),
    )
}



def _sustained(card: Card) -> Card:
    """``card`` with the shares of the bandwidth that were fitted to measurements (:mod:`..times.streaming`): its own, else
    those of cards with memory of its kind (compute capability x.0 has HBM). GDDR memory
    keeps its error codes among the data,
    which costs bandwidth; GeForce cards keep none, and are taken for as good as HBM (assumed)."""
    found = constants("streaming", card.fit_key)
    own = found.get("pointwise") or found["hbm" if card.compute_capability[1] == 0 or "GeForce" in card.name else "gddr"]
    shares = {kind: own * share / MEMORY_EFFICIENCY["pointwise"] for kind, share in MEMORY_EFFICIENCY.items()}
    for kind in ("reduction", "normalization"):
        shares[kind] = found.get(kind) or own * found[f"{kind}_ratio"]
    return replace(card, memory_efficiency={kind: round(share, 4) for kind, share in shares.items()},
                   kernel_start_ns=dict.fromkeys(STREAMING_KINDS, START_NS))


CARDS = {key: _sustained(card) for key, card in CARDS.items()}

DEFAULT_CARD = "a10g"


def find_model(gpu: str) -> str | None:
    """The key of the card that the virtual GPU would model for a GPU that CUDA calls ``gpu``, else None."""
    name = gpu.lower().replace("-", " ").replace("rtx ", "rtx")
    words = set(name.split())
    fitting = [key for key in CARDS if words.issuperset(key.split("_"))]
    return max(fitting, key=len, default=None)
