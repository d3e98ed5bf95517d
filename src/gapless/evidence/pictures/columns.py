"""How much of each column of a picture is covered: bars thinner than a column become its height."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..traces.intervals import length_before

COLUMNS = 900  # across a picture: about a pixel each, on a page
_STEPS = 200  # heights are rounded to so many steps, less than a pixel each: equal neighbours become one step of the outline


def shares(intervals: np.ndarray, end: float, columns: int = COLUMNS) -> np.ndarray:
    """The share of each of the columns from 0 to ``end`` that a set of intervals (:mod:`..traces.intervals`) covers: from 0
    to 1, shape (columns,)."""
    return np.diff(length_before(intervals, np.linspace(0.0, end, columns + 1))) * columns / end


def outlines(layers: Iterable[np.ndarray], end: float) -> list[list[np.ndarray]]:
    """Layers of intervals on top of each other, as polygons: for each layer a list of arrays of (time, height), shape
    (points, 2). A height of 1 is the whole column; no moment may be in two layers."""
    edges = np.linspace(0.0, end, COLUMNS + 1)
    bottom, total, found = np.zeros(COLUMNS), np.zeros(COLUMNS), []
    for intervals in layers:
        total = total + shares(intervals, end)
        top = np.round(total * _STEPS) / _STEPS  # of the sum: layers touch, and their errors do not add up
        drawn = np.flatnonzero(np.diff(np.concatenate([[False], top > bottom, [False]])))
        found.append([np.concatenate([_stairs(edges[first : last + 1], top[first:last]),
                                      _stairs(edges[first : last + 1], bottom[first:last])[::-1]])
                      for first, last in drawn.reshape(-1, 2)])
        bottom = top
    return found


def _stairs(edges: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """The corners of a line that has each height from one edge to the next."""
    first = np.concatenate([[0], np.flatnonzero(np.diff(heights)) + 1])
    times = np.concatenate([edges[first], edges[-1:]])
    return np.column_stack([np.repeat(times, 2)[1:-1], np.repeat(heights[first], 2)])
