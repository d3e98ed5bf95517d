"""How long ``torch.compile`` takes the host: Dynamo's tracing, AOTAutograd's and Inductor's Python, Triton's compiling.

Measured by ``benchmarks/compile_costs.py`` (torch 2.14, triton 3.8, Python 3.11, on cores of a busy x86-64 server, the best
of three; mean errors of the fits: 17 % for Dynamo, 20 % forward, 34 % backward, since an operator may become one line of
code or twenty). Assumed: that the code for a GPU takes Inductor as long to write as that for the CPU, and that Triton
compiles on as many processes as the host has cores (``torch._inductor.config.compile_threads``), one block size a kernel,
on a host as fast. Not modelled: what a process does once (importing Inductor, compiling its patterns), the trials of
``max-autotune``, and what PyTorch keeps on disk from one process to the next: its caches are taken to be empty.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """Nanoseconds of a part of compiling: at least, and for each operator that computes each element by itself, and for each
    other."""

    fixed: int
    pointwise: int
    other: int

    def ns(self, pointwise: int, others: int) -> int:
        """Of a graph with so many operators."""
        return self.fixed + self.pointwise * pointwise + self.other * others


DYNAMO = Part(50_000_000, 300_000, 7_400_000)
FORWARD = Part(57_000_000, 3_900_000, 57_600_000)  # of the backend, with tracing the backward graph
BACKWARD = Part(0, 3_700_000, 24_400_000)
TRITON_NS = 65_000_000  # one kernel of some ten operators, on one core

# Measured 12 and 25 µs; four calls of Python functions in Dynamo's files are counted by themselves (Host.python_call_ns).
CALL_NS, INPUT_NS = 9_000, 850
TRAINING_CALL_NS, TRAINING_INPUT_NS = 22_000, 1_300


def call_ns(inputs: int, trains: bool) -> int:
    """Nanoseconds of a call of compiled code without its launches: guards, and PyTorch's Python around it. ``inputs``: the
    tensors that it is given, parameters too; ``trains``: whether it keeps anything for a backward pass, or is one (assumed
    to take as long)."""
    return TRAINING_CALL_NS + inputs * TRAINING_INPUT_NS if trains else CALL_NS + inputs * INPUT_NS


def compile_ns(pointwise: int, others: int, kernels: int, cores: int, backward: bool = False) -> int:
    """Nanoseconds to compile a graph: its operators that compute each element by itself, its others that make no view, and
    the kernels of Triton's that they become. The backward pass is compiled when it first runs."""
    parts = (BACKWARD,) if backward else (DYNAMO, FORWARD)
    return sum(part.ns(pointwise, others) for part in parts) + round(TRITON_NS * kernels / max(1, min(cores, kernels)))
