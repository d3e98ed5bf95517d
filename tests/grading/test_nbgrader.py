"""A real course of real students in a real gradebook, with the toy lesson."""

import json
import re
import subprocess

import pytest

from gapless.grading.sandbox.confine import UNCONFINED

from .toy import GOOD_DOUBLE, GOOD_SQUARE, SLOW_DOUBLE, SLOW_SQUARE, code, markdown, notebook
from .toycourse import CHECKS, LESSON, Course

pytest.importorskip("nbgrader")

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture(scope="module")
def released_course(tmp_path_factory):
    course = Course(tmp_path_factory.mktemp("course"))
    subprocess.run(**course.command("generate_assignment", LESSON), capture_output=True, check=True)  # the others are forks
    return course


@pytest.fixture(scope="module")
def graded_course(released_course):
    """Three students, and a fourth whose file is no notebook: (course, what autograde said)."""
    course = released_course
    release = json.loads(course.released().read_text())
    course.submit("ann", _solved(release))
    noted = json.loads(json.dumps(release))
    noted["cells"] += [markdown("![mine](attachment:gone.png) See `double`."),
                       {**markdown("![mine](attachment:dot.png)"), "attachments": {"dot.png": {"image/png": DOT}}}]
    course.submit("bob", noted)
    # Colab: no metadata at all, the first exercise twice, the second gone, both checks gone.
    course.submit("cleo", notebook("import torch", SLOW_DOUBLE, "print('<b>&')", GOOD_DOUBLE))
    course.submit("dan", "this is no notebook")
    return course, course.nbgrader("autograde", LESSON, check=False)


def _solved(release):
    solved = json.loads(json.dumps(release))
    for cell in solved["cells"]:
        for marker, fast in (("# exercise: double", GOOD_DOUBLE), ("# exercise: square", GOOD_SQUARE)):
            if "".join(cell["source"]).startswith(marker):
                cell["source"] = "".join(cell["source"]) + "\n" + fast.partition("\n")[2]
    return solved


def test_the_release_keeps_the_slow_code_and_no_solution(released_course):
    text = released_course.released().read_text()
    assert "SOLUTION" not in text and "return 2 * x\\n\"" not in text
    assert "2 * x[i]" in text


def test_scores_reach_the_gradebook(graded_course):
    course, _ = graded_course
    scores = course.scores()
    assert {student: scores[student] for student in ("ann", "bob", "cleo")} == {
        "ann": {"check_double": (3, False), "check_square": (3, False)},
        "bob": {"check_double": (0, False), "check_square": (0, False)},
        "cleo": {"check_double": (3, False), "check_square": (0, False)},
    }


def test_one_broken_file_stops_nobody_else_and_has_no_score(graded_course):
    course, done = graded_course
    assert done.returncode == 1
    assert "is not a notebook" in done.stderr and "for student 'dan'" in done.stderr
    assert "dan" not in course.scores()
    assert not course.autograded("dan").exists()


def test_the_restored_notebook_has_each_cell_once_and_in_place(graded_course):
    course, _ = graded_course
    cells = json.loads(course.autograded("cleo").read_text())["cells"]
    ids = [cell["metadata"].get("nbgrader", {}).get("grade_id") for cell in cells]
    assert ids == ["setup", None, None, "double", "check_double", "square", "check_square"]
    assert "missing" in "".join(cells[5]["source"])
    assert [cell["outputs"] for cell in cells if cell["metadata"].get("nbgrader", {}).get("grade_id") not in
            ("check_double", "check_square")] == [[]] * 5


def test_feedback_helps_and_hides_what_is_hidden(graded_course):
    course, _ = graded_course
    done = course.nbgrader("generate_feedback", LESSON)
    assert done.returncode == 0
    page = (course.root / "feedback" / "bob" / LESSON / f"{LESSON}.html").read_text()
    assert "slow" in page and "0 of 3 points" in page
    page = (course.root / "feedback" / "cleo" / LESSON / f"{LESSON}.html").read_text()
    assert "more than once" in page and "# exercise: square" in page
    assert "seed" not in page
    # What the instructor keeps does hold the seed: it must lie elsewhere.
    assert "seed" in (course.root / "results" / "cleo" / LESSON / f"{LESSON}.ipynb").read_text()
    assert {path.suffix for path in (course.root / "feedback").rglob("*") if path.is_file()} == {".html"}


def test_feedback_shows_pictures_and_a_text_whose_picture_is_missing_as_it_was_written(graded_course):
    course, _ = graded_course
    done = course.nbgrader("generate_feedback", LESSON, "--force", "--student", "bob")
    page = course.page("bob")
    assert f"data:image/png;base64,{DOT}" in page
    assert "![mine](attachment:gone.png)" in page and "missing attachment: gone.png" in done.stderr


@pytest.mark.slow
def test_feedbacks_contents_name_the_exercises_and_lead_to_them(graded_course):
    course, _ = graded_course
    assert course.nbgrader("generate_feedback", LESSON).returncode == 0
    page = course.page("bob")
    contents = page[page.index('<div id="toc">'):page.index("</ol>")]
    assert re.findall(r'<a href="#(\w+)">(.*?)</a> \(Score', contents) == [("check_double", "double"), ("check_square", "square")]
    assert "Test cell" not in page and "Check of <code>double</code>" in page
    assert all(f'<a name="check_{name}"></a>' in page for name in ("double", "square"))
    # An answer that can be folded out has its triangle, which Bootstrap takes away.
    rules = re.findall(r"summary\s*\{([^}]*)\}|[^{},]*\bsummary\b[^{}]*\{([^}]*)\}", page)
    assert "display: list-item" in "".join(rules[-1])


def test_a_plain_second_run_skips_what_is_graded(graded_course):
    course, _ = graded_course
    before = course.autograded("ann").stat().st_mtime_ns
    done = course.nbgrader("autograde", LESSON, "--student", "ann")
    assert "Skipping existing" in done.stderr
    assert course.autograded("ann").stat().st_mtime_ns == before
    assert not list((course.root / "autograded").rglob(".*"))


@pytest.mark.slow
@pytest.mark.parametrize("spoil, says", [("raise KeyError('the instructor erred')", "did not run to its end"),
                                         ("import os; os._exit(3)", "ended before it was done")])
def test_a_crash_loses_no_earlier_result(graded_course, spoil, says):
    course, _ = graded_course
    test_notebook = course.root / "autograde" / f"{LESSON}.ipynb"
    whole, scores, graded = test_notebook.read_text(), course.scores(), course.autograded("ann").read_text()
    results = (course.root / "results" / "ann" / LESSON / f"{LESSON}.json").read_text()
    broken = json.loads(whole)
    broken["cells"][-1]["source"] = spoil
    test_notebook.write_text(json.dumps(broken))
    try:
        done = course.nbgrader("autograde", LESSON, "--student", "ann", "--force", check=False)
    finally:
        test_notebook.write_text(whole)
    assert done.returncode == 1 and says in done.stderr
    assert course.scores() == scores
    assert course.autograded("ann").read_text() == graded
    assert (course.root / "results" / "ann" / LESSON / f"{LESSON}.json").read_text() == results


@pytest.mark.slow
def test_force_grades_again(graded_course):
    course, _ = graded_course
    course.submit("fay", notebook(SLOW_DOUBLE, SLOW_SQUARE))
    course.nbgrader("autograde", LESSON, "--student", "fay")
    course.submit("fay", notebook(GOOD_DOUBLE, code(CHECKS["double"]), SLOW_SQUARE, markdown("end")))
    course.nbgrader("autograde", LESSON, "--student", "fay", "--force")
    assert course.scores()["fay"] == {"check_double": (3, False), "check_square": (0, False)}
    assert not list((course.root / "autograded").rglob(".*"))


@pytest.mark.slow
def test_metadata_that_nbgrader_stumbles_over(graded_course):
    """An outdated schema stops nbgrader for the whole class, a duplicate id fails the student."""
    course, _ = graded_course
    old = {"nbgrader": {"schema_version": 1, "grade": True, "grade_id": "check_double", "points": 100}}
    course.submit("eve", notebook(code(GOOD_DOUBLE, nbgrader="gone mad"), code(CHECKS["double"], **old),
                                  code("spoilt_check()", **old), code(GOOD_SQUARE, nbgrader={"schema_version": 99}),
                                  code("1 + 1", nbgrader={"schema_version": 3, "grade": True, "grade_id": "bonus", "points": 9})))
    course.nbgrader("autograde", LESSON, "--student", "eve")
    assert course.scores()["eve"] == {"check_double": (3, False), "check_square": (3, False)}


@pytest.mark.slow
def test_without_a_sandbox_nothing_is_graded_unless_told(graded_course):
    course, _ = graded_course
    course.submit("gus", notebook(GOOD_DOUBLE, SLOW_SQUARE))
    without = {"PATH": "/nowhere", UNCONFINED: ""}
    done = course.nbgrader("autograde", LESSON, "--student", "gus", check=False, **without)
    assert done.returncode == 1 and "Grading needs bubblewrap" in done.stderr and "GradeWithPapermill.unconfined" in done.stderr
    assert "gus" not in course.scores()
    course.nbgrader("autograde", LESSON, "--student", "gus", "--GradeWithPapermill.unconfined=True", **without)
    assert None not in {score for score, _ in course.scores()["gus"].values()}
