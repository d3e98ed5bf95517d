"""The table of verdicts, as a notebook and a feedback page show it."""

import pytest

from gapless.course.verdicts import Verdict, as_html, points

CHECKS = [Verdict("e.values", "e", 2, "pass", "Same value.").to_json(),
          Verdict("e.syncs", "e", 1.5, "fail", "`nonzero` at <b>line</b> 3").to_json(),
          Verdict("e.step_time", "e", 3, "inconclusive", "run it again").to_json()]


def test_points_are_earned_and_possible():
    assert points(CHECKS) == (2, 6.5)


def test_table_says_outcomes_in_words_and_marks_code():
    page = as_html(CHECKS, ["a `note`"])
    for part in ("2 of 6.5 points", "✓ pass", "✗ fail", "? run again", "<code>nonzero</code>", "a <code>note</code>"):
        assert part in page


def test_what_a_learner_wrote_is_escaped():
    assert "<b>line</b>" not in as_html(CHECKS) and "&lt;b&gt;line" in as_html(CHECKS)


def test_points_are_earned_by_passing_only():
    assert [Verdict("e.c", "e", 3, outcome, "").earned for outcome in ("pass", "fail", "inconclusive")] == [3, 0, 0]


def test_json_has_the_agreed_keys():
    assert set(Verdict("e.c", "e", 3, "pass", "m").to_json()) == {"id", "exercise", "points", "earned", "outcome", "message"}


def test_raises_when_the_outcome_is_unknown():
    with pytest.raises(ValueError, match="use pass, fail or inconclusive"):
        Verdict("e.c", "e", 3, "maybe", "")
