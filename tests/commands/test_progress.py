"""``gapless progress``."""

import json

from gapless.learner.progress_file import record_check

from .learner import LESSON


def test_table_of_the_course_and_of_a_lesson(progress_home, gapless):
    record_check(LESSON, "ignore_background", 5, 5, "a GPU")
    for arguments in ((), (LESSON,)):
        status, out, _ = gapless("progress", *arguments)
        assert status == 0 and "[############]    5 of 5    done" in out and "Nothing is recorded" not in out


def test_without_a_record_it_says_where_one_would_be(progress_home, gapless):
    status, out, _ = gapless("progress")
    assert status == 0 and str(progress_home) in out and "0 of 21" in out


def test_json(progress_home, gapless):
    record_check(LESSON, "ignore_background", 5, 5, "a GPU")
    assert json.loads(gapless("progress", LESSON, "--json")[1])["best"] == 5


def test_unknown_lesson_is_exit_2(progress_home, gapless):
    status, _, err = gapless("progress", "99")
    assert status == 2 and "the course has" in err
