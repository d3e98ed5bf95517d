"""How long a collective takes: NCCL's own tuning model, over the links between the modelled cards.

NCCL predicts each algorithm (ring, tree) with each protocol (LL, LL128, Simple) as a latency plus bytes ÷ bandwidth, and
runs the fastest (NCCL 2.30, graph/tuning.cc: ``ncclTopoTuneModel``, ``ncclTopoGetAlgoTime``). The same here, with the tables
of that file; the bandwidths of links are those that NCCL's search of a machine's topology works with (graph/topo.h,
search.cc), the number of links that of the data sheets (:data:`MACHINES`). What goes from one rank to another (send,
all-to-all, gather, scatter) has no model in NCCL: one step of a Simple ring, and the bytes of the busiest rank over its link
(assumed).

NCCL's model chooses between algorithms; it is no promise. Measured AllReduces take a constant more (the ranks' kernels do
not begin together), and a multiple of its time that hangs on the links: ``fitted/collectives.json``
(:mod:`gapless.fidelity.fit.collectives`).

Not modelled: NCCL's algorithms CollNet and PAT; cards that do not see each other over one switch or one root;
several collectives that share a link; what a collective's traffic takes from kernels but their multiprocessors. Needs no
PyTorch. Latencies of the model are in µs, bandwidths in GB/s, as in NCCL.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..cards.fitted import constants
from ..cards.specs import Card, find_model
from ..clock.engine import WHOLE

ALGORITHMS = ("TREE", "RING")
PROTOCOLS = ("LL", "LL128", "SIMPLE")

# tuning.cc, ``ncclTunerConstantsDefaults``. (algorithm, protocol) → µs.
_BASE_US = {"TREE": (6.8, 14.0, 8.4), "RING": (6.6, 14.0, 8.4)}
_HOP_US = {"nvlink": {"TREE": (0.6, 1.25, 4.0), "RING": (0.6, 1.9, 3.4)},
           "pcie": {"TREE": (1.0, 1.9, 4.0), "RING": (1.0, 2.5, 5.7)},
           "network": {"TREE": (5.0, 8.5, 14.0), "RING": (2.7, 4.0, 14.0)}}
# Rows: Volta, Ampere, Hopper. Columns: one machine, two, more. GB/s, all but the first of a channel.
_LL_MOST = ((39.0, 39.0, 20.4), (87.7, 22.5, 19.0), (141.0, 45.0, 35.0))
_RING_LL128_MOST = ((20.0, 20.0, 20.0), (20.0, 20.0, 20.0), (36.7, 36.7, 36.7))
_TREE_LL128_MOST = ((20.0, 20.0, 20.0), (20.0, 20.0, 20.0), (36.7, 36.7, 29.0))
_TREE_MOST = ((26.5, 18.5, 10.0), (24.0, 23.6, 17.8), (38.7, 41.4, 36.0))
# tuning.cc, ``treeCorrectionFactor``: by protocol and log2(bytes ÷ 64).
_TREE_CORRECTION = (
    (1.0, 1.0, 1.0, 1.0, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1.0, 1.0, 1.0, 1.0),
    (1.0, 1.0, 1.0, 1.0, 1.0, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1.0, 1.0),
    (.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9))
# NCCL's channels use this many threads, and fewer channels where each thread would have less to do (device.h; enqueue.cc,
# ``ncclGetAlgoInfo``): protocol → (threads, bytes a thread).
_THREADS = {"LL": (512, 8), "LL128": (640, 8), "SIMPLE": (512, 64)}

# topo.h: what NCCL counts on, of one NVLink and direction by compute capability, and of a PCIe slot of 16 GB/s.
_NVLINK_GB_S = {7: 20.0, 8: 20.0, 9: 20.6}
_PCIE_SHARE = 12.0 / 16.0
_FASTEST_CHANNELS = {7: (40, 30, 20), 8: (40, 30, 20), 9: (60, 50, 40, 30)}  # search.cc, ``speedArrayIntra``
_PCIE_CHANNEL_GB_S = 12.0


@dataclass(frozen=True)
class Machine:
    """What stands around the cards of one machine. ``nvlinks``: of each card, to a switch that joins all, or to its
    neighbour alone where ``pairs``; 0: they meet over PCIe, as more than two do where ``pairs``. ``nics``: network cards,
    ``nic_bytes_per_s`` each, one direction; ``nic_beside``: whether they hang beside the cards and not behind the
    processor, whose maker is AMD where ``amd``."""

    nvlinks: int
    nics: int
    nic_bytes_per_s: float
    nic_beside: bool
    amd: bool
    source: str
    pairs: bool = False


_GBIT = 1e9 / 8
MACHINES: dict[str, Machine] = {
    "dgx_v100": Machine(6, 4, 100 * _GBIT, True, False,
                        "NVIDIA DGX-1 data sheet (2017): 6 NVLinks a GPU, 4 cards of 100 Gb/s, Intel"),
    "dgx_a100": Machine(12, 8, 200 * _GBIT, True, True,
                        "NVIDIA DGX A100 data sheet (2020): 12 NVLinks a GPU, 8 ConnectX-6 of 200 Gb/s, AMD"),
    "dgx_h100": Machine(18, 8, 400 * _GBIT, True, False,
                        "NVIDIA DGX H100 data sheet (2023): 18 NVLinks a GPU, 8 ConnectX-7 of 400 Gb/s, Intel"),
    "pairs_a100": Machine(12, 1, 100 * _GBIT, False, True,
                          "NVIDIA A100 PCIe product brief (2022): three bridges of 4 NVLinks join two cards", pairs=True),
    "pairs_h100": Machine(12, 1, 100 * _GBIT, False, False,
                          "NVIDIA H100 NVL product brief (2024): three bridges, 600 GB/s both ways, join two cards",
                          pairs=True),
    "g4dn": Machine(0, 1, 100 * _GBIT, False, False, "Amazon EC2 g4dn.metal: 8 GPUs, 100 Gb/s, Intel"),
    "g5": Machine(0, 1, 100 * _GBIT, False, True, "Amazon EC2 g5.48xlarge: 8 GPUs, 100 Gb/s, AMD"),
    "g6": Machine(0, 1, 100 * _GBIT, False, True, "Amazon EC2 g6.48xlarge: 8 GPUs, 100 Gb/s, AMD"),
    "pcie": Machine(0, 1, 100 * _GBIT, False, True, "assumed: a server with PCIe slots and one network card of 100 Gb/s"),
}
_OF_CARD = {"t4": "g4dn", "v100": "dgx_v100", "a10g": "g5", "l4": "g6", "a100": "dgx_a100", "a100_80gb": "dgx_a100",
            "h100": "dgx_h100", "h200": "dgx_h100"}


@dataclass(frozen=True)
class Course:
    """How a collective runs: its time, the algorithm and protocol that NCCL would choose, its thread blocks."""

    ns: int
    algorithm: str
    protocol: str
    blocks: int

    def share(self, card: Card) -> int:
        """What of the card's multiprocessors it takes, in parts of :data:`WHOLE`: one a block (assumed)."""
        return min(WHOLE, WHOLE * self.blocks // card.sm_count)


def machine_name(card: Card) -> str:
    """The machine that ``card`` is taken to stand in, by its key, else by its name: a key of :data:`MACHINES`."""
    return _OF_CARD.get(card.key) or _OF_CARD.get(find_model(card.name) or "") or "pcie"


def find_machine(text: str) -> Machine:
    """The machine called ``text``; "NAME@6.5": with a network of 6.5 GB/s, both network cards and what lies behind them
    taken together. Raises ValueError."""
    name, _, network = text.partition("@")
    if name not in MACHINES:
        raise ValueError(f"no machine is called {name!r}: choose from {', '.join(MACHINES)}; its network's GB/s may follow, "
                         "as in dgx_a100@6.5")
    if not network:
        return MACHINES[name]
    try:
        speed = float(network)
    except ValueError:
        speed = math.nan
    if not 0 < speed < 1e4:
        raise ValueError(f"{text!r}: {network!r} is no speed of a network; give its GB/s, as in {name}@6.5")
    return replace(MACHINES[name], nics=1, nic_bytes_per_s=speed * 1e9, nic_beside=False)


# Kinds, as :class:`...distributed.collectives.Collective` names them, by what NCCL runs for them.
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "AllReduce", "AllGather", "ReduceScatter"
BROADCAST, REDUCE, SEND_RECV = "Broadcast", "Reduce", "SendRecv"


def course(function: str, nbytes: int, ranks: Sequence[int], card: Card, machine: Machine | None = None) -> Course:
    """How the NCCL function ``function`` runs among ``ranks``, of which each is given as the number of its machine.
    ``machine``: what they are (default: that of :func:`machine_name`).

    ``nbytes``: of AllReduce, Broadcast and Reduce what each rank has; of AllGather and ReduceScatter what all ranks have
    together; of SendRecv what goes through the busiest rank's link in one direction. Raises ValueError for another function.
    """
    links = _Links(ranks, card, machine or MACHINES[machine_name(card)])
    if function == SEND_RECV:
        return _between_two(links, nbytes)
    if function not in (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE):
        raise ValueError(f"{function!r} is no function of NCCL's that is modelled")
    us, algorithm, protocol = _fastest(function, nbytes, links)
    return Course(round(links.really_us(us) * 1e3), algorithm, protocol, _blocks(nbytes, protocol, links, algorithm))


class _Links:
    """What NCCL's search finds: ``channels`` rings over links of ``kind``, of ``bandwidth`` together (GB/s)."""

    def __init__(self, ranks: Sequence[int], card: Card, machine: Machine):
        major = min(max(card.compute_capability[0], 7), 9)
        self.generation = major - 7
        self.count, self.machines = len(ranks), len(set(ranks))
        self.on_each = max(1, self.count // self.machines)
        self.column = min(self.machines, 3) - 1
        self.amd = machine.amd
        self.bridged = machine.pairs and self.on_each <= 2
        if machine.nvlinks and (self.bridged or not machine.pairs):
            self.kind, most = "nvlink", machine.nvlinks * _NVLINK_GB_S[major]
            # Rings as fast as can be, then each twice at half the speed (search.cc, ``ncclTopoDupChannels``).
            speed = max(_FASTEST_CHANNELS[major], key=lambda each: (most // each * each, each))
            self.channels, self.bandwidth = 2 * int(most // speed), most // speed * speed
        else:
            self.kind, self.bandwidth = "pcie", card.pcie_bytes_per_s * _PCIE_SHARE / 1e9
            self.channels = max(1, round(self.bandwidth / _PCIE_CHANNEL_GB_S))
        self.has_ll128 = self.kind == "nvlink"
        if self.machines > 1:
            nics = min(machine.nics, self.on_each) if machine.nic_beside else machine.nics
            self.bandwidth = min(self.bandwidth, nics * machine.nic_bytes_per_s / 1e9)
            self.has_ll128 &= machine.nic_beside

    @property
    def outermost(self) -> str:
        return "network" if self.machines > 1 else self.kind

    def really_us(self, us: float) -> float:
        """What takes ``us`` by NCCL's model."""
        known = constants("collectives")
        apart, factor = self.measured_by
        return known[apart] + us * (1.0 if self.machines > 1 else known[factor])

    @property
    def measured_by(self) -> tuple[str, str]:
        """The fitted constants: what is added, and the factor of the links inside one machine."""
        return f"apart_{7 + self.generation}_us", self._factor

    @property
    def _factor(self) -> str:
        """A switch for Hopper adds up what passes through it (NVLS, of which NCCL's tree and ring know nothing), from three
        cards on."""
        if self.kind == "pcie":
            return "pcie"
        if self.bridged:
            return "bridges"
        return "switch_9_nvls" if self.generation == 2 and self.count > 2 else f"switch_{7 + self.generation}"


def unfitted(nbytes: int, ranks: Sequence[int], card: Card, machine: Machine) -> tuple[float, str, str]:
    """What an AllReduce takes by NCCL's model alone (µs); the fitted constant that is added, and the one that multiplies."""
    links = _Links(ranks, card, machine)
    return _fastest(ALL_REDUCE, nbytes, links)[0], *links.measured_by


def _fastest(function: str, nbytes: int, links: _Links) -> tuple[float, str, str]:
    algorithms = ALGORITHMS if function == ALL_REDUCE else ("RING",)
    return min((_us(function, algorithm, place, nbytes, links), algorithm, protocol) for algorithm in algorithms
               for place, protocol in enumerate(PROTOCOLS) if protocol != "LL128" or links.has_ll128)


def _us(function: str, algorithm: str, protocol: int, nbytes: int, links: _Links) -> float:
    """Of :func:`course`, by ``ncclTopoTuneModel`` and ``ncclTopoGetAlgoTime``."""
    count, machines, name = links.count, links.machines, PROTOCOLS[protocol]
    row = links.generation if machines == 1 else int(links.amd)
    ll_most = _LL_MOST[row][links.column]
    bus = links.bandwidth
    if algorithm == "RING":
        if name == "LL":
            bus = min(ll_most, bus * .5)
        elif name == "LL128":
            bus = min(bus * .92, links.channels * _RING_LL128_MOST[links.generation][links.column])
    else:
        bus = min(bus * .92, links.channels * _TREE_MOST[links.generation][links.column])
        if name == "LL":
            bus = min(bus / 3.8, ll_most)
        elif name == "LL128":
            bus = min(bus * (7 / 9 if machines == 1 else 120 / 128),
                      links.channels * _TREE_LL128_MOST[links.generation][links.column])
    steps = {ALL_REDUCE: 2 * (count - 1), ALL_GATHER: count - 1, REDUCE_SCATTER: count - 1}.get(function, count)
    bandwidth = bus * (count / steps if algorithm == "RING" else .5)

    latency = _BASE_US[algorithm][protocol]
    inside = _HOP_US[links.kind][algorithm][protocol]
    # With one card a machine all latency shows: the tree's.
    between = _HOP_US["network"]["TREE" if links.on_each == 1 else algorithm][protocol]
    if algorithm == "TREE":
        latency += 2 * ((links.on_each - 1) * inside + int(math.log2(machines)) * between)
        size = (nbytes // 64).bit_length() - 1
        if 0 <= size < len(_TREE_CORRECTION[0]):
            bandwidth *= _TREE_CORRECTION[protocol][size]
    elif function in (BROADCAST, REDUCE):
        latency += _HOP_US[links.outermost][algorithm][protocol]
    else:
        if machines > 1:
            inside = max(inside, (2.0 if links.amd else 1.0) * (3 if name == "SIMPLE" else 1))  # ``getNetOverhead``
        crossing = 0 if machines == 1 else (2 if function == ALL_REDUCE else 1) * (machines - 1)
        latency += (steps - crossing) * inside + crossing * between
        if name == "SIMPLE" and machines > 1 and function == ALL_REDUCE and nbytes // (2 * links.channels * count) >= 64:
            latency *= 1.9 if links.generation == 0 else 1.4  # "plateau effect of ring"
    return latency + nbytes / (1000 * bandwidth)


def _blocks(nbytes: int, protocol: str, links: _Links, algorithm: str) -> int:
    """NCCL makes two channels of each ring found, and uses fewer for few bytes."""
    threads, least = _THREADS[protocol]
    if protocol == "LL" and algorithm == "RING":
        least *= links.count
    return max(1, min(2 * links.channels, nbytes // (threads * least)))


def _between_two(links: _Links, nbytes: int) -> Course:
    us = _BASE_US["RING"][2] + _HOP_US[links.outermost]["RING"][2] + nbytes / (1000 * links.bandwidth)
    return Course(round(links.really_us(us) * 1e3), "RING", "SIMPLE", _blocks(nbytes, "SIMPLE", links, "RING"))
