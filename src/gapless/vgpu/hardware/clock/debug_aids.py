"""What a program has switched on to look at itself, and what that costs the host.

Measured on a CPU by ``benchmarks/debug_costs.py`` (22 November 2026, torch 2.14; the fastest of 40 turns): what PyTorch's
profiler and ``emit_nvtx`` (no tool listening) add to an operator, and how long the stack takes to be written down that
anomaly detection keeps of each node, at a depth of 12 frames. A stack's depth would make the clock depend on what calls
the program, so it is taken to be that. What a profiler does when it stops is not counted except for its Python.
"""

from __future__ import annotations

from dataclasses import dataclass

PROFILED_NS = 430
RANGE_NS = 350
STACK_NS = 42_000


@dataclass
class DebugAids:
    """``blocking``: each launch waits until its kernel is done, as with CUDA_LAUNCH_BLOCKING=1; ``profiled``: PyTorch's
    profiler records; ``ranges``: each operator is an NVTX range. ``op_ns``: what these add to an operator."""

    blocking: bool = False
    profiled: bool = False
    ranges: bool = False
    op_ns: int = 0

    def switch(self, blocking: bool | None = None, profiled: bool | None = None, ranges: bool | None = None) -> None:
        """Switch those that are not None."""
        self.blocking = self.blocking if blocking is None else blocking
        self.profiled = self.profiled if profiled is None else profiled
        self.ranges = self.ranges if ranges is None else ranges
        self.op_ns = PROFILED_NS * self.profiled + RANGE_NS * self.ranges
