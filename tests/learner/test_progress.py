"""The table of progress, in words and in HTML."""

import re

import pytest

import gapless
from gapless.learner.progress import bar
from gapless.learner.progress_file import progress_path, record_check, record_hint
from gapless.lessons import LESSONS, UnknownLesson, find_lesson

LESSON = "02_masked_loss"


@pytest.mark.parametrize("earned, points, expected", [
    (0, 5, "[....]"), (0.1, 5, "[#...]"), (2.5, 5, "[##..]"), (4.99, 5, "[###.]"), (5, 5, "[####]"), (6, 5, "[####]"), (0, 0, "[....]"),
])
def test_bar_is_full_only_with_all_points(earned, points, expected):
    assert bar(earned, points, 4) == expected


@pytest.fixture
def some(progress_home):
    record_check(LESSON, "ignore_background", 5, 5, "a GPU")
    record_check(LESSON, "ignore_background", 2, 5, "a GPU")
    record_check(LESSON, "zero_if_uniform", 2, 5, "a GPU")
    record_hint(LESSON, "masked_cross_entropy", 2)


def test_table_of_a_lesson_says_points_states_and_remarks(some):
    lines = str(gapless.progress(LESSON)).splitlines()
    assert re.search(r"02_masked_loss +\[####\.+\] +7 of 21 +started +The masked loss", lines[0])
    assert re.search(r"ignore_background +\[#+\] +5 of 5 +done +2 checks, last time 2$", lines[1])
    assert re.search(r"zero_if_uniform +\[####\.+\] +2 of 5 +started +1 check$", lines[2])
    assert re.search(r"masked_cross_entropy +\[\.+\] +0 of 6 +started +2 hints$", lines[3])
    assert re.search(r"sparse_head_loss +\[\.+\] +0 of 5 +not started$", lines[4])


def test_the_whole_course_has_every_lesson(some):
    course = gapless.progress()
    assert [lesson.id for lesson in course.lessons] == list(LESSONS)
    assert (course.best, course.points) == (7, sum(find_lesson(each).max_points for each in LESSONS))


def test_panel_tells_nothing_by_colour_alone(some):
    page = gapless.progress(LESSON)._repr_html_()
    bars = re.findall(r'role="img" aria-label="([^"]*)"', page)
    assert bars == ["7 of 21 points", "5 of 5 points", "2 of 5 points", "0 of 6 points", "0 of 5 points"]
    for part in (">done<", ">started<", ">not started<", ">5 of 5<", 'scope="row"', 'scope="col"', "<caption"):
        assert part in page
    assert "#" not in page  # no colour of its own: it takes the page's


def test_points_of_an_older_course_count_up_to_what_there_is_now(progress_home):
    record_check(LESSON, "ignore_background", 9, 9, "a GPU")
    assert gapless.progress(LESSON).best == 5


def test_a_damaged_file_is_told_in_both_forms(progress_home):
    progress_home.mkdir()
    progress_path().write_text("<b>no</b>")
    panel = gapless.progress(LESSON)
    assert "is damaged" in str(panel) and "is damaged" in panel._repr_html_() and panel.best == 0


def test_json_has_what_the_table_has(some):
    lesson, = gapless.progress(LESSON).to_json()["lessons"]
    assert (lesson["best"], lesson["points"], lesson["state"]) == (7, 21, "started")
    first = lesson["exercises"][0]
    assert (first["name"], first["best"], first["last"], first["points"], first["state"], first["device"]) == (
        "ignore_background", 5, 2, 5, "done", "a GPU")


def test_raises_when_the_lesson_is_unknown():
    with pytest.raises(UnknownLesson, match="the course has"):
        gapless.progress("99_nothing")
