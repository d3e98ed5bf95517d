"""Which operators make the host wait, and why: what PyTorch's CUDA kernels do inside.

Copies, comparisons and indexing decide by their arguments and are in :mod:`gapless.vgpu.operators`.
"""

from __future__ import annotations

# Operator → how many times it reads a number back before it can go on.
# Each needs the number to size its result or to answer with a Python value.
READ_BACKS: dict[str, int] = {
    "_unique2": 1,  # how many distinct values: the size of the result
    "unique_dim": 1,
    "unique_consecutive": 1,
    "unique_dim_consecutive": 1,
    "bincount": 2,  # the smallest value (to refuse negatives) and the largest (the size)
    "repeat_interleave": 1,  # the sum of the repeats, unless output_size is given
    "_linalg_check_errors": 1,  # whether a factorisation failed, to raise an error
}


def read_backs(name: str, args: tuple, kwargs: dict) -> int:
    """How many read-backs this call makes."""
    if name == "histc":
        lowest, highest = (*args[2:4], kwargs.get("min", 0), kwargs.get("max", 0))[:2]
        return 2 if lowest == highest else 0  # without limits it finds the smallest and the largest value
    if name == "repeat_interleave" and kwargs.get("output_size") is not None:
        return 0
    return READ_BACKS.get(name, 0)
