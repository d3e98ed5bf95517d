"""The parts that nbgrader runs, against a real gradebook."""

import json
import subprocess
import sys

import nbformat
import pytest

from gapless.lessons import LESSONS

from .. import ROOT
from .toy import GOOD_DOUBLE, GOOD_SQUARE, notebook, write
from .toycourse import LESSON, Course

pytest.importorskip("nbgrader")
from nbconvert.exporters import HTMLExporter
from nbgrader.api import Gradebook

from gapless.course.notebooks.submission import plain_notebook
from gapless.grading.preprocessors import GradeWithPapermill, ReadableText, RestoreLesson
from gapless.grading.sandbox.confine import GradingError


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    course = Course(tmp_path_factory.mktemp("course"))
    course.nbgrader("generate_assignment", LESSON)
    with Gradebook(f"sqlite:///{course.root}/gradebook.db") as gradebook:
        gradebook.add_student("ann")
        gradebook.add_submission(LESSON, "ann")
    return course


@pytest.fixture
def resources(course, monkeypatch):
    monkeypatch.chdir(course.root)
    return {"nbgrader": {"student": "ann", "assignment": LESSON, "notebook": LESSON,
                         "db_url": f"sqlite:///{course.root}/gradebook.db"}}


@pytest.fixture
def restored(resources):
    def restore(content):
        return RestoreLesson().preprocess(nbformat.from_dict(plain_notebook(json.loads(json.dumps(content)))), resources)[0]

    return restore


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_page_shows_every_text_of_a_lesson_with_its_pictures(lesson):
    content = json.loads((ROOT / "notebooks" / lesson / f"{lesson}.ipynb").read_text())
    nb = nbformat.from_dict(plain_notebook(content))
    before = [cell.source for cell in nb.cells]
    shown, _ = ReadableText().preprocess(nb, {})
    assert [cell.source for cell in shown.cells] == before
    assert [cell.get("attachments") for cell in nb.cells] == [cell.get("attachments") for cell in content["cells"]]


def ids(nb):
    return [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in nb.cells]


def test_a_released_notebook_is_left_as_it_is(course, restored):
    release = json.loads(course.released().read_text())
    for cell in release["cells"]:
        cell["source"] = "".join(cell["source"])
    nb = restored(release)
    assert [(c.source, c.metadata.get("nbgrader")) for c in nb.cells] == [
        (c["source"], c["metadata"].get("nbgrader")) for c in release["cells"]]


def test_an_empty_notebook_gets_every_cell_back(restored):
    assert ids(restored(notebook())) == ["double", "check_double", "square", "check_square"]


def _results(**changes):
    check = {"id": "double.values", "exercise": "double", "points": 3, "earned": 3, "outcome": "pass", "message": "<b>right</b>"}
    other = {**check, "id": "square.values", "exercise": "square"}
    return {"lesson": LESSON, "device": "vgpu", "simulated": True, "score": 6, "max_score": 6, "confinement": "none",
            "notes": [], "checks": [{**check, **changes}, other]}


@pytest.fixture
def graded(course, resources, restored):
    """Grade a good notebook by a test notebook that reports what it is told."""
    def grade(results, seed="seed"):
        path = course.root / "fixed" / f"{LESSON}.ipynb"
        write(notebook({**notebook("results = ''; seed = None")["cells"][0], "metadata": {"tags": ["parameters"]}},
                       f"import json\njson.dump({{**{results!r}, 'seed': {seed}}}, open(results, 'w'))",
                       kernelspec={"name": "python3", "display_name": "Python 3", "language": "python"}), path)
        grader = GradeWithPapermill(test_notebooks=str(path.parent), attempts=1)
        return grader.preprocess(restored(notebook(GOOD_DOUBLE, GOOD_SQUARE)), resources)[0]

    return grade


def test_points_and_escaped_message_are_the_cell_s_output(graded):
    (output,) = graded(_results(earned=1.25, outcome="fail")).cells[1].outputs
    assert output.data["text/plain"] == "1.25"
    assert "&lt;b&gt;right" in output.data["text/html"]


@pytest.mark.parametrize("changes, says", [
    ({"outcome": "inconclusive", "earned": 0}, "too noisy"),
    ({"points": 4}, "generate_assignment again"),
    ({"earned": 5}, "earned 5 of 3"),
    ({"exercise": "cube"}, "generate_assignment again"),
])
def test_what_cannot_be_trusted_stores_no_score(graded, changes, says):
    with pytest.raises(GradingError, match=says):
        graded(_results(**changes))


def test_a_test_notebook_that_keeps_no_seed_stores_no_score(graded):
    with pytest.raises(GradingError, match="does not use the seed"):
        graded(_results(), seed=1)


@pytest.mark.slow
def test_grading_imports_nothing_that_only_unix_has():
    blocked = ("resource", "fcntl", "pwd", "grp", "termios", "pty", "tty", "syslog")
    script = ("import sys, torch, numpy, psutil\n"
              f"sys.modules.update(dict.fromkeys({blocked!r}))\n"
              "import gapless.commands.grade, gapless.grading.grade, gapless.grading.sandbox.worker, "
              "gapless.grading.sandbox.ask, gapless.grading.sandbox.own_process, gapless.grading.notebooks.testnotebook, gapless.grading.show\n")
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_page_is_made_without_a_warning(caplog):
    """The exporter's options are meant for all that it runs."""
    with caplog.at_level("WARNING"):
        ReadableText(config=HTMLExporter().default_config)
    assert not caplog.records
