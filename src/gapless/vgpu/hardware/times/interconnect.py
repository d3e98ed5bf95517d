"""How long a collective takes: NCCL's own tuning model, over the links between the modelled cards.

NCCL predicts each algorithm (ring, tree) with each protocol (LL, LL128, Simple) as a latency plus bytes ÷ bandwidth, and
runs the fastest (NCCL 2.30, graph/tuning.cc: ``ncclTopoTuneModel``, ``ncclTopoGetAlgoTime``). The same here, with the tables
of that file; the bandwidths of links are those that NCCL's search of a machine's topology works with (graph/topo.h,
search.cc), the number of links that of the data sheets (:data:`MACHINES`). What goes from one rank to another (send,
all-to-all, gather, scatter) has no model in NCCL: one step of a Simple ring, and the bytes of the busiest rank over its link
(assumed).

Not modelled: NVLS, CollNet and PAT (what a switch or a network card reduces); cards that do not see each other over one
switch or one root; several collectives that share a link; what a collective's traffic takes from kernels but their
multiprocessors. Needs no PyTorch. Latencies of the model are in µs, bandwidths in GB/s, as in NCCL.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

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
    """What stands around the cards of one machine. ``nvlinks``: of each card, to a switch that joins all; 0: they meet over
    PCIe. ``nics``: network cards, ``nic_bytes_per_s`` each, one direction; ``nic_beside``: whether they hang beside the
    cards and not behind the processor, whose maker is AMD where ``amd``. ``gpus``: the most that one machine has."""

    nvlinks: int
    nics: int
    nic_bytes_per_s: float
    nic_beside: bool
    amd: bool
    source: str
    gpus: int = 8


_GBIT = 1e9 / 8
_A100 = Machine(12, 8, 200 * _GBIT, True, True,
                "NVIDIA DGX A100 data sheet (2020): 12 NVLinks a GPU, 8 ConnectX-6 of 200 Gb/s, AMD")
_H100 = Machine(18, 8, 400 * _GBIT, True, False,
                "NVIDIA DGX H100 data sheet (2023): 18 NVLinks a GPU, 8 ConnectX-7 of 400 Gb/s, Intel")
_OTHER = Machine(0, 1, 100 * _GBIT, False, True, "assumed: a server with PCIe slots and one network card of 100 Gb/s")
MACHINES: dict[str, Machine] = {
    "t4": Machine(0, 1, 100 * _GBIT, False, False, "Amazon EC2 g4dn.metal: 8 GPUs, 100 Gb/s, Intel"),
    "v100": Machine(6, 4, 100 * _GBIT, True, False,
                    "NVIDIA DGX-1 data sheet (2017): 6 NVLinks a GPU, 4 cards of 100 Gb/s, Intel"),
    "a10g": Machine(0, 1, 100 * _GBIT, False, True, "Amazon EC2 g5.48xlarge: 8 GPUs, 100 Gb/s, AMD"),
    "l4": Machine(0, 1, 100 * _GBIT, False, True, "Amazon EC2 g6.48xlarge: 8 GPUs, 100 Gb/s, AMD"),
    "a100": _A100, "a100_80gb": _A100, "h100": _H100, "h200": _H100,
}


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


def machine_of(card: Card) -> Machine:
    """The machine that ``card`` is taken to stand in: by its key, else by its name."""
    return MACHINES.get(card.key) or MACHINES.get(find_model(card.name) or "") or _OTHER


# Kinds, as :class:`...distributed.collectives.Collective` names them, by what NCCL runs for them.
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "AllReduce", "AllGather", "ReduceScatter"
BROADCAST, REDUCE, SEND_RECV = "Broadcast", "Reduce", "SendRecv"


def course(function: str, nbytes: int, ranks: Sequence[int], card: Card) -> Course:
    """How the NCCL function ``function`` runs among ``ranks``, of which each is given as the number of its machine.

    ``nbytes``: of AllReduce, Broadcast and Reduce what each rank has; of AllGather and ReduceScatter what all ranks have
    together; of SendRecv what goes through the busiest rank's link in one direction. Raises ValueError for another function.
    """
    links = _Links(ranks, card)
    if function == SEND_RECV:
        return _between_two(links, nbytes)
    if function not in (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE):
        raise ValueError(f"{function!r} is no function of NCCL's that is modelled")
    algorithms = ALGORITHMS if function == ALL_REDUCE else ("RING",)
    us, algorithm, protocol = min(
        (_us(function, algorithm, place, nbytes, links), algorithm, protocol)
        for algorithm in algorithms for place, protocol in enumerate(PROTOCOLS) if protocol != "LL128" or links.has_ll128)
    return Course(round(us * 1e3), algorithm, protocol, _blocks(nbytes, protocol, links, algorithm))


class _Links:
    """What NCCL's search finds: ``channels`` rings over links of ``kind``, of ``bandwidth`` together (GB/s)."""

    def __init__(self, ranks: Sequence[int], card: Card):
        machine, major = machine_of(card), min(max(card.compute_capability[0], 7), 9)
        self.generation = major - 7
        self.count, self.machines = len(ranks), len(set(ranks))
        self.on_each = max(1, self.count // self.machines)
        self.column = min(self.machines, 3) - 1
        self.amd = machine.amd
        if machine.nvlinks:
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
    return Course(round(us * 1e3), "RING", "SIMPLE", _blocks(nbytes, "SIMPLE", links, "RING"))
