"""An exercise's cell is known by its first line with text."""

import pytest

from gapless.marker import exercise_name


@pytest.mark.parametrize("source, name", [
    ("# exercise: one\nx = 1", "one"),
    ("\n\n  #exercise:two \nx = 1", "two"),
    ("x = 1\n# exercise: one", None),
    ("# exercise: not a name", None),
    ("", None),
])
def test_marker_is_the_first_line_with_text(source, name):
    assert exercise_name(source) == name
