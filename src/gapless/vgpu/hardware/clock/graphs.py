"""Graphs of kernels (CUDA graphs): work that is captured in place of being queued, and is launched as one later.

What a launch takes is NVIDIA's ("Constant Time Launch for Straight-Line CUDA Graphs and Other Performance
Enhancements", NVIDIA Technical Blog, 2024, CUDA 12.6 on Ampere): on the host 2.5 µs and 1 ns a node, at the first launch
of 100 nodes 15 µs. On the device kernels follow each other sooner than in a stream: "Getting Started with CUDA Graphs"
(NVIDIA Technical Blog, 2019) has kernels of 2.9 µs that take 3.8 µs each in a stream and 3.4 µs in a graph. A modelled
kernel takes what kernels took that were called one after the other, with the stream's gap; in a graph it is shorter by
the difference. Assumed: that this is the same on all cards; what it takes to make a graph executable; that a launch has
one place in the launch queue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from .streams import Stream

LAUNCH_NS, NODE_NS = 2_500, 1  # a launch on the host, and each node's part of it
FIRST_NODE_NS = 125  # a node's part of the first launch, which brings the graph to the device: (15 - 2.5) µs over 100
SAVED_NS = 3_800 - 3_400  # of each kernel's time in a stream
# Assumptions (`benchmarks/gpu_visit.sh` asks a GPU for them): the calls at both ends of a capture; making a node executable.
CAPTURE_NS, INSTANTIATE_NODE_NS = 2_500, 1_500

# Capture modes: what else is refused while a capture is under way (CUDA runtime API, cudaStreamCaptureMode).
STRICT_MODES = ("global", "thread_local")

Fail = Callable[[str], NoReturn]


@dataclass(slots=True)
class Node:
    """One piece of work: what :meth:`Timeline.launch` was given, the number of the stream that it was captured on, and the
    places of the nodes that come before it."""

    category: str
    name: str
    duration_ns: int
    share: int
    engine: str
    args: dict
    work: tuple | None
    stream: int
    after: tuple[int, ...]


@dataclass(eq=False)
class Graph:
    """The nodes, in an order in which they can run; ``number`` tells graphs apart in a trace."""

    nodes: list[Node] = field(default_factory=list)
    number: int = 0
    launches: int = 0

    @property
    def kernel_count(self) -> int:
        """How many of the nodes are kernels."""
        return sum(node.category == "kernel" for node in self.nodes)

    def launch_ns(self) -> int:
        """What the next launch takes the host."""
        return LAUNCH_NS + len(self.nodes) * (NODE_NS if self.launches else FIRST_NODE_NS)


class Capture:
    """A capture under way, that began on ``origin``. Streams that wait for an event of a captured one are captured too.
    ``fail`` raises the error of that name: ``cudaError…``, or "pageable" for PyTorch's own."""

    _serial = 0

    def __init__(self, origin: Stream, mode: str, fail: Fail):
        Capture._serial += 1
        self.origin, self.mode, self._fail = origin, mode, fail
        self.graph = Graph(number=Capture._serial)
        self.is_valid = True
        # Of each captured stream, the nodes that its next one follows.
        self._last: dict[int, tuple[int, ...]] = {origin.number: ()}

    def takes(self, stream: Stream) -> bool:
        """Whether work of ``stream`` is captured."""
        return stream.number in self._last

    def fail(self, error: str) -> NoReturn:
        """From now on the capture is invalid."""
        self.is_valid = False
        self._fail(error)

    def check(self) -> None:
        """Raise the error of a call on a captured stream after one that was refused."""
        if not self.is_valid:
            self._fail("cudaErrorStreamCaptureInvalidated")

    def add(self, stream: Stream, category: str, name: str, duration_ns: int, share: int, engine: str, args: dict,
            work: tuple | None) -> None:
        """Work on ``stream`` is captured."""
        self.check()
        nodes = self.graph.nodes
        if category == "kernel":
            duration_ns = max(duration_ns - SAVED_NS, 1)
        nodes.append(Node(category, name, duration_ns, share, engine, args, work, stream.number, self._last[stream.number]))
        self._last[stream.number] = (len(nodes) - 1,)

    def recorded(self, stream: Stream) -> tuple[int, ...]:
        """What an event recorded on ``stream`` now stands for."""
        self.check()
        return self._last[stream.number]

    def joins(self, stream: Stream, after: tuple[int, ...]) -> None:
        """What ``stream`` gets next follows ``after`` too."""
        self.check()
        self._last[stream.number] = tuple(sorted({*self._last.get(stream.number, ()), *after}))

    def refuse_wait(self, stream: Stream | None) -> None:
        """The host wants to wait for ``stream`` (None: for all), or to know whether it is done."""
        if stream is None or self.takes(stream) or self.mode in STRICT_MODES:
            self.check()
            self.fail("cudaErrorStreamCaptureUnsupported")

    def refuse_pageable(self) -> NoReturn:
        """A copy on a captured stream from or to memory that is not pinned: PyTorch refuses it, before CUDA hears of it."""
        self.check()
        self._fail("pageable")

    def end(self) -> Graph:
        """The graph. Raises the errors of ``cudaStreamEndCapture``."""
        self.check()
        reached, ahead = set(), list(self._last[self.origin.number])
        while ahead:
            place = ahead.pop()
            if place not in reached:
                reached.add(place)
                ahead += self.graph.nodes[place].after
        if len(reached) < len(self.graph.nodes):
            self.fail("cudaErrorStreamCaptureUnjoined")
        return self.graph
