"""Collecting from an exchange in which somebody has left what cannot be copied."""

import os

import pytest

from .toy import GOOD_DOUBLE, GOOD_SQUARE, notebook, write
from .toycourse import LESSON, Course

pytest.importorskip("nbgrader")
pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="nbgrader has no exchange here")

TIME = "2027-01-01 12:00:00 UTC"


def test_one_learners_folder_stops_nobody_elses(tmp_path):
    exchange = tmp_path / "exchange"
    (tmp_path / "class").mkdir()
    course = Course(tmp_path / "class", quick=True)
    with open(course.root / "nbgrader_config.py", "a") as config:
        config.write(f"\nc.Exchange.root = {str(exchange)!r}\nc.CourseDirectory.max_dir_size = 100\n")
    course.nbgrader("generate_assignment", LESSON)
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
