"""Sets of intervals against sets of whole moments."""

import numpy as np
import pytest

from gapless.evidence.traces.intervals import EMPTY, difference, intersection, length, length_before, union, within


def drawn(rng):
    """Intervals between whole numbers, and the unit cells that they cover."""
    starts = rng.integers(0, 30, int(rng.integers(0, 8)))
    intervals = [(int(start), int(start + rng.integers(0, 9))) for start in starts]
    return intervals, {cell for start, end in intervals for cell in range(start, end)}


def cells(intervals):
    return {cell for start, end in intervals for cell in range(int(start), int(end))}


@pytest.mark.parametrize("seed", range(200))
def test_sets_of_intervals_are_the_sets_of_their_cells(seed):
    rng = np.random.default_rng(seed)
    (first, a), (second, b) = drawn(rng), drawn(rng)
    one, other = union(first), union(second)
    start, end = sorted(rng.integers(0, 35, 2))
    for found, wanted in [(one, a), (other, b), (intersection(one, other), a & b), (difference(one, other), a - b),
                          (within(one, start, end), a & set(range(start, end)))]:
        assert cells(found) == wanted
        assert length(found) == len(wanted)  # so nothing counts twice
        assert length_before(found, np.arange(45)).tolist() == [sum(cell < time for cell in wanted) for time in range(45)]
        assert (found[1:, 0] > found[:-1, 1]).all() and (found[:, 1] > found[:, 0]).all()  # in order, none touch
        assert found.shape == (len(found), 2)


def test_nothing_is_a_set_too():
    assert length(EMPTY) == length(union([])) == length(union([(3, 3)])) == 0
    assert length_before(EMPTY, np.array([1.0, 2.0])).tolist() == [0, 0]
    assert len(intersection(EMPTY, union([(0, 1)]))) == 0
    np.testing.assert_array_equal(difference(union([(0, 1)]), EMPTY), [[0, 1]])
