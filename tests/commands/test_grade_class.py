"""``gapless grade-class`` on a real course of nbgrader's."""

import pytest

from gapless.commands.cli import main

from .. import forked
from ..grading.toy import GOOD_DOUBLE, GOOD_SQUARE, SLOW_DOUBLE, SLOW_SQUARE, notebook
from ..grading.toycourse import LESSON, Course

GOOD, SLOW = notebook(GOOD_DOUBLE, GOOD_SQUARE), notebook(SLOW_DOUBLE, SLOW_SQUARE)


def grade_class(course, *arguments):
    command = course.command()
    return forked.run("-m", "gapless.commands.cli", "grade-class", str(course.root), *arguments, imports=forked.NBGRADER, cwd="/", env=command["env"])


def test_all_that_was_handed_in_is_graded_with_a_bar(tmp_path):
    course = Course(tmp_path, quick=True)
    assert "nothing was handed in" in grade_class(course).stderr
    course.nbgrader("generate_assignment", LESSON)
    for student, content in (("ann", GOOD), ("bob", SLOW), ("cleo", "no notebook")):
        course.submit(student, content)
    done = grade_class(course, "--workers", "2")
    assert done.returncode == 1 and "failed=1" in done.stderr and "3/3" in done.stderr
    assert done.stdout.startswith(f"{LESSON}: 2 graded, 1 failed (all of them: ")
    assert {student: row["score"] for student, row in course.summary().items()} == {"ann": "6", "bob": "2", "cleo": ""}
    course.submit("cleo", GOOD)
    done = grade_class(course, "--lesson", LESSON, "--workers", "1")
    assert done.returncode == 0 and course.summary()["cleo"]["score"] == "6"


@pytest.mark.parametrize("arguments, says", [(["--workers", "0"], "at least one"), ([], "name the course's folder")])
def test_what_cannot_be_is_refused(tmp_path, capsys, arguments, says):
    if arguments:
        (tmp_path / "nbgrader_config.py").touch()
    assert main(["grade-class", str(tmp_path), *arguments]) == 2
    assert says in capsys.readouterr().err
