"""Lesson 07: how ``forward`` is judged."""

from __future__ import annotations

from ....course.evidence import Case
from ....course.exercise import Notes
from ..judged import GRAPHS, ONE, counted_in_words

# Kernels that may be launched beside a graph: that of the gradient that a backward pass begins with, and those after a wait
# inside the graph, which the virtual GPU does not fuse: 8 with `torch.cond`. The unoptimised `forward` launches over 20.
_FEW_KERNELS = 12


def seen_graphs(case: Case, answer, notes: Notes):
    """One graph is wanted, where they are counted."""
    return counted_in_words(answer, notes, GRAPHS, 1, ONE, _FEW_KERNELS) if case.options["counts"] else answer
