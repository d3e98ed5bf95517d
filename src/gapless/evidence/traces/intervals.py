"""Sets of time intervals: joined, cut with each other, measured.

A set is an array of shape (n, 2), float64, a start and an end a row. What :func:`union` returns is in order of time and its
rows neither touch nor overlap; the other functions take such sets and return such.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

EMPTY = np.empty((0, 2))


def union(intervals: Iterable[tuple[float, float]]) -> np.ndarray:
    """The moments in at least one of the intervals, in any order. An interval without a length is left out."""
    given = np.asarray(list(intervals), dtype=np.float64).reshape(-1, 2)
    given = given[given[:, 1] > given[:, 0]]
    if not len(given):
        return EMPTY
    given = given[np.argsort(given[:, 0], kind="stable")]
    reached = np.maximum.accumulate(given[:, 1])
    first = np.concatenate([[True], given[1:, 0] > reached[:-1]])
    last = np.concatenate([first[1:], [True]])
    return np.column_stack([given[first, 0], reached[last]])


def intersection(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The moments in both sets."""
    if not len(one) or not len(other):
        return EMPTY
    # A moment is in both where two of the four kinds of edges are open.
    edges = np.concatenate([one[:, 0], other[:, 0], one[:, 1], other[:, 1]])
    signs = np.repeat([1, -1], [len(one) + len(other)] * 2)
    order = np.lexsort((signs, edges))  # an end before a start at the same moment
    edges, open_ = edges[order], np.cumsum(signs[order])
    found = np.flatnonzero(open_ == 2)
    return np.column_stack([edges[found], edges[found + 1]])


def difference(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The moments in ``one`` and not in ``other``."""
    if not len(one) or not len(other):
        return one
    inf = np.inf
    outside = np.column_stack([np.concatenate([[-inf], other[:, 1]]), np.concatenate([other[:, 0], [inf]])])
    return intersection(one, outside)


def within(intervals: np.ndarray, start: float, end: float) -> np.ndarray:
    """The moments of the set from ``start`` to ``end``."""
    return intersection(intervals, union([(start, end)]))


def length(intervals: np.ndarray) -> float:
    """How long all intervals of the set are together."""
    return float((intervals[:, 1] - intervals[:, 0]).sum())


def length_before(intervals: np.ndarray, times: np.ndarray) -> np.ndarray:
    """How much of the set lies before each of the ``times``; of their shape."""
    if not len(intervals):
        return np.zeros(np.shape(times))
    sums = np.cumsum(intervals[:, 1] - intervals[:, 0])
    at_edges = np.column_stack([np.concatenate([[0.0], sums[:-1]]), sums])
    return np.interp(times, intervals.ravel(), at_edges.ravel())
