"""Lesson 01: what is right for ``memory_by_operator``."""

from __future__ import annotations

from ....evidence import views

MEMORY_FIELDS = ("size_increase_bytes", "self_size_increase_bytes", "allocation_bytes", "self_allocation_bytes")


def right_memory_by_operator(trace):
    return {row.name: {name: getattr(row, name) for name in MEMORY_FIELDS}
            for row in views.memory_by_operator(trace, device=None)}
