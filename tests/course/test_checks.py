import pytest

from gapless.course.checks import Verdict


def test_points_are_earned_by_passing_only():
    assert [Verdict("e.c", "e", 3, outcome, "").earned for outcome in ("pass", "fail", "inconclusive")] == [3, 0, 0]


def test_json_has_the_agreed_keys():
    assert set(Verdict("e.c", "e", 3, "pass", "m").to_json()) == {"id", "exercise", "points", "earned", "outcome", "message"}


def test_raises_when_the_outcome_is_unknown():
    with pytest.raises(ValueError, match="use pass, fail or inconclusive"):
        Verdict("e.c", "e", 3, "maybe", "")
