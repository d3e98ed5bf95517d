"""When compiling takes time on the modelled host: where a compiled graph first runs, and its backward pass.

The device decides that by what it sees run. A graph that runs other operators than it was compiled for, or on other shapes
while it is not dynamic, is compiled again, whatever number the program gives it.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import NamedTuple

from ..hardware.clock.compile_costs import compile_ns
from ..process.state import state

MOST_GRAPHS = 10_000
NAME = re.compile(r"[\w!/\[\]?.-]{1,40}")  # of PyTorch's compilations (torch/_guards.py, CompileId)


class Graph(NamedTuple):
    """A compiled graph: its number in the process, whether its shapes are symbols, PyTorch's name for it (``0/1``: the
    second compilation of the first frame), and whether it runs as one launch (:mod:`.reduced_overhead`)."""

    number: int
    dynamic: bool = False
    name: str = "?"
    captured: bool = False

    def __str__(self) -> str:
        return self.name


_compiled: dict[tuple, None] = {}
_forward_passes = 0
_launched = 0, 0


def compilations() -> int:
    """How often a graph's forward pass was compiled in this process so far."""
    return _forward_passes


def compiled_kernels() -> tuple[int, int]:
    """How many kernels compiled graphs have launched in this process so far, forward and backward, and how many of them are
    matrix products."""
    return _launched


def launched(kernels: int, products: int) -> None:
    """A compiled graph has launched so many."""
    global _launched
    _launched = _launched[0] + kernels, _launched[1] + products


def charge(graph: Graph, what: Hashable, kinds: list[str], kernels: int, backward: bool = False,
           goes_on: bool = False) -> None:
    """``graph`` runs; if it was not compiled for this, it is now, which takes the host its time, as one block of a trace.

    ``what`` it runs: its operators, and their shapes unless it is dynamic. ``kinds``: of each operator that makes no view,
    the kind of its kernels ("pointwise" or another). ``kernels``: of Triton's that it has become. ``goes_on``: it is the
    rest of a graph that has waited inside, which counts as one."""
    global _forward_passes
    key = graph.number, backward, what
    if key in _compiled:
        return
    _forward_passes += not (backward or goes_on)
    if len(_compiled) >= MOST_GRAPHS:
        del _compiled[next(iter(_compiled))]
    _compiled[key] = None
    timeline, pointwise = state.timeline, sum(kind == "pointwise" for kind in kinds)
    # Their names in PyTorch's traces (torch/_dynamo/utils.py, dynamo_timed).
    timeline.begin_op("backward._backward_impl (dynamo_timed)" if backward else "_compile.compile_inner (dynamo_timed)",
                      compile_ns(pointwise, len(kinds) - pointwise, kernels, timeline.host.cores, backward))
    timeline.end_op()
