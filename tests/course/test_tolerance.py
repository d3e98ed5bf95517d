"""How near is near enough, by dtype."""

import numpy as np
import pytest

from gapless.course.checks import Values
from gapless.course.exercise import Exercise, Right, Teaching
from gapless.course.tolerance import close, tolerances

EXERCISE = Exercise("odd", abs, lambda seed: [], (Values(1),), Teaching(("a", "b", "c")))


@pytest.mark.parametrize("dtype, apart, near", [("float32", 5e-5, True), ("float32", 5e-3, False), ("float64", 5e-3, False),
                                                ("float16", 5e-3, True), ("float16", 5e-2, False)])
def test_half_precision_may_differ_more(dtype, apart, near):
    assert close(EXERCISE, np.array([2.0 * (1 + apart)]), np.array([2.0], dtype=dtype)).all() == near


def test_an_exercise_may_ask_for_less():
    wide = Exercise("odd", abs, lambda seed: [], (Values(1),), Teaching(("a", "b", "c")), right=Right(relative_tolerance=0.5))
    assert tolerances(wide, "float16") == (0.5, 1e-3) and tolerances(EXERCISE) == (1e-4, 1e-5)


def test_nan_equals_nan():
    assert close(EXERCISE, np.array([np.nan, 1.0]), np.array([np.nan, np.nan])).tolist() == [True, False]
