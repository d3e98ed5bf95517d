"""The census's table of idioms."""

import pytest

from gapless.fidelity.idioms import IDIOMS, Idiom


def test_the_table_is_large_and_says_why():
    assert len(IDIOMS) >= 100
    assert sum(idiom.waits > 0 for idiom in IDIOMS.values()) >= 50 <= sum(idiom.waits == 0 for idiom in IDIOMS.values())
    assert all(idiom.reason and idiom.source for idiom in IDIOMS.values())


@pytest.mark.parametrize("waits, at_least, found, agrees", [
    (1, False, 1, True), (1, False, 2, False), (1, False, 0, False), (0, False, 0, True), (2, True, 3, True), (2, True, 1, False),
])
def test_agreement(waits, at_least, found, agrees):
    assert Idiom("g", "n", waits, print, "r", "s", at_least).agrees(found) is agrees
