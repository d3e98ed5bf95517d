"""What ``gapless class-report`` refuses; what it writes: tests/grading/report/test_facts.py."""

import pytest

pytest.importorskip("nbgrader")

from gapless.commands.cli import main

from ..grading.toycourse import LESSON, Course


def refused(capsys, *arguments):
    assert main(["class-report", *map(str, arguments)]) == 2
    return capsys.readouterr().err


@pytest.mark.slow
def test_what_cannot_be_is_refused_and_nothing_is_written(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "name the course's folder" in refused(capsys, tmp_path)
    for name in ("none", "some"):
        (tmp_path / name).mkdir()
    Course(tmp_path / "none", quick=True)
    assert "there is no gradebook" in refused(capsys, tmp_path / "none")
    assert not (tmp_path / "none" / "gradebook.db").exists()
    course = Course(tmp_path / "some", quick=True)
    course.nbgrader("generate_assignment", LESSON)
    assert "nothing is graded yet" in refused(capsys, course.root)
    assert "has no assignment '99_other'; it has 77_toy" in refused(capsys, course.root, "--lesson", "99_other")
    assert "name a .html file" in refused(capsys, course.root, "--out", "report.pdf")
    assert "nowhere" in refused(capsys, course.root, "--out", tmp_path / "nowhere" / "a.html")
    (course.root / "gradebook.db").write_bytes(b"no database at all, but long enough to be looked at")
    assert "the gradebook cannot be used" in refused(capsys, course.root)
    assert not list(tmp_path.glob("*.*"))
