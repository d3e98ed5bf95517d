"""Numbers, and where they come from, in words."""

import pytest

from gapless.words import counted, origin


@pytest.mark.parametrize("count, text", [(1, "1 wait"), (1.0, "1 wait"), (0, "0 waits"), (2.5, "2.5 waits"), (1200, "1200 waits")])
def test_the_noun_agrees_with_the_number(count, text):
    assert counted(count, "wait") == text


def test_a_figure_says_where_it_comes_from():
    assert origin(True, "NVIDIA T4") == "simulated NVIDIA T4" and origin(False, "NVIDIA H100") == "measured on NVIDIA H100"
