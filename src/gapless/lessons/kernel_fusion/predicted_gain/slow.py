"""Lesson 07: ``predicted_gain`` as handed out."""

from __future__ import annotations


def predicted_gain(kernels, outputs):
    """How many times as fast one kernel would be as these, which run one after the other. Each is (reads, writes):
    name of a tensor → bytes. ``outputs``: the names of the tensors that are needed afterwards."""
    return float(len(kernels))
