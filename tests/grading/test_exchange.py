"""Collecting from an exchange in which somebody has left what cannot be copied."""

import os

import pytest

from .toy import GOOD_DOUBLE, GOOD_SQUARE, notebook, write
from .toycourse import LESSON, Course

pytest.importorskip("nbgrader")
pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="nbgrader has no exchange here")

TIME = "2027-01-01 12:00:00 UTC"


@pytest.mark.slow
def test_one_learners_folder_stops_nobody_elses(tmp_path, released):
    exchange = tmp_path / "exchange"
    (tmp_path / "class").mkdir()
    course = Course(tmp_path / "class", quick=True, like=released)
    with open(course.root / "nbgrader_config.py", "a") as config:
        config.write(f"\nc.Exchange.root = {str(exchange)!r}\nc.CourseDirectory.max_dir_size = 100\n")
    for student in ("ann", "bob", "cleo"):
        folder = exchange / "gapless" / "inbound" / f"{student}+{LESSON}+{TIME}"
        write(notebook(GOOD_DOUBLE, GOOD_SQUARE), folder / f"{LESSON}.ipynb")
        write(TIME, folder / "timestamp.txt")
        if student == "ann":
            os.mkfifo(folder / "pipe")
        if student == "bob":
            write("x" * 200_000, folder / "data.bin")
    exchange.chmod(0o777)
    done = course.nbgrader("collect", LESSON, check=False)
    assert done.returncode == 1 and "ann: " in done.stderr and "named pipe" in done.stderr and "bob: Directory size" in done.stderr
    submitted = course.root / "submitted"
    assert {path.name for path in submitted.iterdir()} == {"ann", "bob", "cleo"} and not list(submitted.glob("*/.*"))
    assert (submitted / "bob" / LESSON / "timestamp.txt").read_text() == TIME
    course.nbgrader("autograde", LESSON, check=False)
    # What could be collected is graded, and who has nothing there is told so.
    assert {student: row["state"] for student, row in course.summary().items()} == {"ann": "graded", "bob": "failed", "cleo": "graded"}


@pytest.mark.slow
def test_who_handed_in_by_other_ways_stops_nobody_elses_page(tmp_path, released):
    exchange = tmp_path / "exchange"
    exchange.mkdir(mode=0o777)
    exchange.chmod(0o777)
    (tmp_path / "class").mkdir()
    course = Course(tmp_path / "class", quick=True, like=released)
    with open(course.root / "nbgrader_config.py", "a") as config:
        config.write(f"\nc.Exchange.root = {str(exchange)!r}\n")
    for student in ("ann", "bob", "cleo"):
        folder = course.root / "submitted" / student / LESSON
        write(notebook(GOOD_DOUBLE, GOOD_SQUARE), folder / f"{LESSON}.ipynb")
        if student != "ann":
            write(TIME, folder / "timestamp.txt")
            write(f"secret of {student}", folder / "submission_secret.txt")
    course.nbgrader("autograde", LESSON)
    course.nbgrader("generate_feedback", LESSON)
    done = course.nbgrader("release_feedback", LESSON, check=False)
    assert done.returncode == 1 and "not handed in through the exchange: ann." in done.stderr
    assert len(list((exchange / "gapless" / "feedback").glob("*.html"))) == 2
    done = course.nbgrader("release_feedback", LESSON, "--CourseDirectory.student_id_exclude=ann")
    assert done.returncode == 0
