import numpy as np
import pytest

from gapless.evidence.pictures.columns import COLUMNS, outlines, shares
from gapless.evidence.traces.intervals import EMPTY, union


def area(polygons):
    """By the shoelace formula."""
    total = 0.0
    for x, y in (polygon.T for polygon in polygons):
        total += abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) / 2
    return total


def test_shares_of_each_column():
    found = shares(union([(1, 2.5), (2.75, 3), (3.5, 9)]), end=4.0, columns=4)
    assert found == pytest.approx([0, 1, 0.75, 0.5])
    assert shares(EMPTY, 4.0, columns=4).tolist() == [0, 0, 0, 0]


def test_a_bar_thinner_than_a_column_becomes_its_height():
    (polygon,), = outlines([union([(10, 10.25)])], end=COLUMNS)
    assert polygon.tolist() == [[10, 0.25], [11, 0.25], [11, 0], [10, 0]]


def test_a_wide_bar_stays_one():
    (polygon,), = outlines([union([(10, 500)])], end=COLUMNS)
    assert polygon.tolist() == [[10, 1], [500, 1], [500, 0], [10, 0]]


def test_layers_lie_on_each_other_and_their_areas_are_their_lengths():
    below, above = union([(0.0, 300.0), (400.0, 400.5)]), union([(300.0, 399.75), (400.5, 401.0)])
    first, second = outlines([below, above], end=COLUMNS)
    assert area(first) == pytest.approx(300.5) and area(second) == pytest.approx(100.25)
    assert max(polygon[:, 1].max() for polygon in [*first, *second]) == 1


def test_nothing_has_no_outline():
    assert outlines([EMPTY, EMPTY], end=1.0) == [[], []]
