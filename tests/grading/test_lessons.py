"""Every lesson graded for real, on the modelled A10G: both routes, solved and as handed out."""

import json

import papermill
import pytest

from gapless.grading.grade import grade
from gapless.grading.notebooks.testnotebook import run_test_notebook
from gapless.grading.sandbox.confine import GradingError
from gapless.lessons import LESSONS

from .. import ROOT
from .lessoncells import cells
from .toy import GOOD_DOUBLE, notebook, write
from .toycourse import quick_test_notebook


def submission(folder, lesson_id, tmp_path):
    return write(notebook(*cells(folder, lesson_id).values()), tmp_path / f"{lesson_id}.ipynb")


QUICK = ("01_profiler_tour", "02_masked_loss", "04_data_loading")  # the least time, and processes of a loader's


@pytest.mark.parametrize("lesson_id", [pytest.param(lesson_id, marks=[] if lesson_id in QUICK else pytest.mark.slow)
                                       for lesson_id in LESSONS])
def test_the_solution_gets_full_marks_from_the_test_notebook(lesson_id, tmp_path):
    lesson, path = LESSONS[lesson_id], submission("solutions", lesson_id, tmp_path)
    result, executed = run_test_notebook(ROOT / "autograde" / f"{lesson_id}.ipynb", path, "vgpu:a10g", 7)
    short = [verdict["message"] for verdict in result["checks"] if verdict["earned"] < verdict["points"]]
    assert (short, result["score"]) == ([], lesson.max_points) and result["max_score"] == lesson.max_points
    shown = [cell for cell in executed["cells"] if any("image/png" in o.get("data", {}) for o in cell.get("outputs", []))]
    assert len(shown) == sum(exercise.measurement is not None for exercise in lesson.exercises.values())


def handed_out(lesson_id, tmp_path):
    return run_test_notebook(ROOT / "autograde" / f"{lesson_id}.ipynb", submission("notebooks", lesson_id, tmp_path), "vgpu:a10g", 7)[0]


def test_what_is_handed_out_scores_nothing(tmp_path):
    """In the lesson that is graded in the least time; tests/lessons/test_exercises.py judges all."""
    result = handed_out("01_profiler_tour", tmp_path)
    assert {verdict["outcome"] for verdict in result["checks"]} == {"fail"}


@pytest.mark.slow
def test_both_routes_give_the_same_result(tmp_path):
    lesson_id = "00_two_clocks"  # exercises of both kinds: to be made fast, and to be made right
    straight = grade(submission("notebooks", lesson_id, tmp_path), "vgpu:a10g", 7)
    assert handed_out(lesson_id, tmp_path) == json.loads(json.dumps(straight.to_json()))


def test_a_kernel_whose_ports_another_one_took_is_started_again(monkeypatch, tmp_path):
    real, tries = papermill.execute_notebook, []

    def taken_once(*args, **options):
        tries.append(options)
        if len(tries) == 1:
            raise RuntimeError("Kernel died before replying to kernel_info")
        return real(*args, **options)

    monkeypatch.setattr(papermill, "execute_notebook", taken_once)
    submission = tmp_path / "any.ipynb"
    write(notebook(GOOD_DOUBLE), submission)
    test_notebook = tmp_path / "test.ipynb"
    write(quick_test_notebook(), test_notebook)
    assert run_test_notebook(test_notebook, submission)[0]["checks"] and len(tries) == 2
    monkeypatch.setattr(papermill, "execute_notebook", lambda *_, **__: taken_once(tries.clear()))
    with pytest.raises(GradingError, match="Kernel died"):
        run_test_notebook(test_notebook, submission)
